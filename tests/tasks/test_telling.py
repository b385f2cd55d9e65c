"""The line that a stage leaves about itself: written in a pool's child, read in its parent."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.tasks.desk import SECRET, Desk
from turnchain.orchestrator_core.contracts import (
    STAGES,
    Refusal,
    Stage,
    TurnRecord,
    TurnStatus,
    TurnWork,
)
from turnchain.orchestrator_core.environment import Policy
from turnchain.orchestrator_core.runner import Passage, run_stage
from turnchain.orchestrator_core.turn_context import Park
from turnchain.tasks.telling import MALFORMED, State, Told, read, tell

POLICY = Policy(lease=timedelta(seconds=20), max_attempts=3)
WAIT = timedelta(seconds=3.25)


@pytest.fixture
def turn(desk: Desk) -> TurnRecord:
    """A turn as a claim of `load` finds it that was granted `WAIT` after the turn was accepted."""
    record = desk.turn(desk.ready())
    return changed(record, lease_expires_at=record.accepted_at + WAIT + POLICY.lease)


def changed(turn: TurnRecord, **columns: Any) -> TurnRecord:
    return turn.model_copy(update=columns)


def told(line: str | None) -> Told:
    """As it arrives in the parent."""
    return read(repr(line))


def test_the_first_claim_of_load_tells_how_long_the_turn_waited(turn: TurnRecord) -> None:
    line = tell(Passage(turn=turn), POLICY)

    assert told(line) == Told(None, "waited 3.250 s", WAIT)


@pytest.mark.parametrize("columns", [{"fence": 1}, {"stage": Stage.DRIFT}])
def test_no_later_claim_counts_that_wait_again(turn: TurnRecord, columns: dict[str, Any]) -> None:
    assert tell(Passage(turn=changed(turn, **columns)), POLICY) is None


def test_a_clock_that_was_set_back_makes_no_negative_wait(turn: TurnRecord) -> None:
    earlier = changed(turn, lease_expires_at=turn.accepted_at)

    line = tell(Passage(turn=earlier), POLICY)

    assert told(line).waited == timedelta(0)


def test_a_parked_turn_tells_why_and_for_how_long(turn: TurnRecord) -> None:
    park = Park(reason="compaction", wait=timedelta(seconds=2.5), stage=Stage.LOAD, work=TurnWork())

    line = tell(Passage(turn=changed(turn, stage=Stage.LOCK), park=park), POLICY)

    assert told(line) == Told(State.PARKED, "compaction, for 2.5 s")


@pytest.mark.parametrize("reason", ["unknown", "owned", "moved-on", "parked", "done"])
def test_a_message_that_found_nothing_to_claim_tells_why(reason: Any) -> None:
    line = tell(Passage(refusal=Refusal(reason=reason)), POLICY)

    assert told(line) == Told(State.NOT_CLAIMED, reason)


def test_a_lease_lost_under_way_is_not_a_message_that_found_nothing(turn: TurnRecord) -> None:
    line = tell(Passage(refusal=Refusal(reason="moved-on"), turn=turn), POLICY)

    assert told(line) == Told(State.LEASE_LOST, "moved-on")


def test_a_turn_handed_back_is_told(turn: TurnRecord) -> None:
    line = tell(Passage(turn=turn, handed_back=True), POLICY)

    assert told(line).state is State.HANDED_BACK


def test_a_stage_after_a_takeover_tells_its_attempt(turn: TurnRecord) -> None:
    again = changed(turn, stage=Stage.DISPATCH, fence=1, attempts=1)

    line = tell(Passage(turn=again, status=TurnStatus.AWAITING_INPUT), POLICY)

    assert told(line) == Told(State.TAKEN_OVER, "attempt 2 of 3, awaiting-input")


def test_what_the_turn_ends_as_is_told_until_it_is_over(turn: TurnRecord) -> None:
    ended = {
        stage: tell(Passage(turn=changed(turn, stage=stage), status=TurnStatus.FAILED), POLICY)
        for stage in STAGES
    }

    assert ended[Stage.LOAD] == "waited 3.250 s, failed"
    assert ended[Stage.PERSIST] == "failed"
    assert ended[Stage.COMPACT] is None


@pytest.mark.parametrize("line", [None, MALFORMED, *[f"{state}: why" for state in State]])
def test_whatever_is_told_is_read_back(line: str | None) -> None:
    state, _, detail = (line or "").partition(": ")

    assert told(line) == Told(State(state) if state else None, detail)


def test_a_turn_tells_nothing_that_a_person_wrote(desk: Desk) -> None:
    wake, lines = desk.ready({"say": SECRET}), list[str | None]()

    while True:
        passage = run_stage(wake, desk.core)
        lines.append(tell(passage, desk.core.policy))
        if passage.following is None:
            break
        wake = passage.following

    waited, *others = lines
    assert told(waited).waited is not None
    assert others == [None, None, None, "awaiting-input", "awaiting-input", None]
