from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.orchestrator_core.test_standing import turn_of
from turnchain.orchestrator_core.contracts import Position
from turnchain.orchestrator_core.situation import next_rewake, told
from turnchain.orchestrator_core.sweep import SweepPolicy

NOW = datetime(2026, 1, 1, 12, 0, 0, 700_000, tzinfo=UTC)
SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("away", "says"),
    [
        (0, "2026-01-01T12:00:00Z (0 s ago)"),
        (-1.4, "2026-01-01T11:59:59Z (1 s ago)"),
        (119, "2026-01-01T12:01:59Z (in 119 s)"),
        (120, "2026-01-01T12:02:00Z (in 2 min)"),
        (-7_199, "2026-01-01T10:00:01Z (119 min ago)"),
        (-7_200, "2026-01-01T10:00:00Z (2 h ago)"),
        (2 * 86_400, "2026-01-03T12:00:00Z (in 2 d)"),
    ],
)
def test_an_instant_is_told_with_its_distance(away: float, says: str) -> None:
    assert told(NOW + away * SECOND, NOW) == says


@pytest.mark.parametrize(
    ("wakes", "seconds"), [(0, 5), (1, 10), (2, 20), (6, 300), (99, 300), (10_000, 300)]
)
def test_rewakes_double_up_to_the_longest_wait(wakes: int, seconds: int) -> None:
    """[Ledger.rewake] As the sweep counts."""
    assert next_rewake(_position(wakes, NOW), SweepPolicy()) == NOW + seconds * SECOND


def test_what_was_never_published_is_due_at_once() -> None:
    assert next_rewake(_position(0, None), SweepPolicy()) is None


def _position(wakes: int, woken_at: datetime | None) -> Position:
    return Position(
        turn=turn_of(),
        wakes=wakes,
        woken_at=woken_at,
        last_event=None,
        last_event_at=None,
        iterations=0,
        open_steps=0,
        error_code=None,
    )
