"""Where a turn stands, at the edges that no verb of the ledger is quick enough to show."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from turnchain.orchestrator_core.contracts import (
    STAGES,
    Owner,
    ProcessRecord,
    SessionKey,
    Stage,
    Surroundings,
    TurnId,
    TurnRecord,
    TurnStatus,
)
from turnchain.orchestrator_core.standing import (
    Obstacle,
    Standing,
    capacity,
    is_held,
    is_late,
    is_stuck,
    obstacle,
    serving,
    standing_of,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
QUEUES = dict.fromkeys(STAGES, "turns")


def turn_of(**fields: Any) -> TurnRecord:
    """A turn that is ready at load."""
    given: dict[str, Any] = dict.fromkeys(
        ("lease_owner", "lease_expires_at", "parked", "turn_index", "cancel_requested_at")
    ) | {
        "turn_id": TurnId("t"), "seq": 1, "session": SessionKey(orchestrator_name="bot", session_id="s"),
        "owner": Owner(), "run_id": "t", "runner": "celery", "status": TurnStatus.RUNNING, "stage": Stage.LOAD,
        "fence": 0, "attempts": 0, "takeovers": 0, "ready_at": NOW, "priority": 0, "deadline": None,
        "accepted_at": NOW, "admitted_at": NOW, "settled_at": None,
    }  # fmt: skip
    return TurnRecord(**{**given, **fields})


def process_of(process_id: str = "host:1", **fields: Any) -> ProcessRecord:
    """A worker that serves the bot."""
    given: dict[str, Any] = {"slots": 2, "queues": ("turns",), "signatures": {"bot": "sig"}}
    return ProcessRecord(process_id=process_id, **{**given, **fields})


def around(*processes: ProcessRecord) -> Surroundings:
    return Surroundings(
        now=NOW, swept_at=NOW, processes=processes, last_heartbeat_at=NOW, in_flight=0
    )


@pytest.mark.parametrize(
    ("fields", "standing"),
    [
        ({"status": TurnStatus.QUEUED}, Standing.QUEUED),
        ({}, Standing.READY),
        ({"lease_owner": "host:1/1"}, Standing.OWNED),
        ({"parked": "x", "ready_at": NOW + SECOND}, Standing.PARKED),
        ({"parked": "x", "ready_at": NOW}, Standing.READY),
        ({"parked": "x", "ready_at": None}, Standing.PARKED),
        ({"status": TurnStatus.PAUSED, "ready_at": None}, Standing.PAUSED),
        ({"status": TurnStatus.AWAITING_INPUT, "stage": Stage.COMPACT}, Standing.READY),
        ({"status": TurnStatus.AWAITING_INPUT, "stage": Stage.DONE}, Standing.SETTLED),
        ({"status": TurnStatus.CANCELLED, "stage": Stage.DONE}, Standing.SETTLED),
    ],
)
def test_a_turn_stands_by_its_row_and_the_clock(fields: dict[str, Any], standing: Standing) -> None:
    assert standing_of(turn_of(**fields), NOW) is standing


@pytest.mark.parametrize(
    ("fields", "late"),
    [
        ({"deadline": NOW}, True),
        ({"deadline": NOW + SECOND}, False),
        ({"deadline": NOW, "lease_owner": "host:1/1"}, False),
        ({"deadline": NOW, "stage": Stage.DISPATCH}, True),
        ({"deadline": NOW, "stage": Stage.PERSIST}, False),
        ({"deadline": NOW, "status": TurnStatus.FAILED, "stage": Stage.DONE}, False),
        ({}, False),
    ],
)
def test_only_what_a_sweep_would_end_is_late(fields: dict[str, Any], late: bool) -> None:
    """[DESIGN 10] A deadline counts until persist."""
    assert is_late(turn_of(**fields), NOW) is late


@pytest.mark.parametrize(
    ("fields", "woken_at", "held"),
    [
        ({"lease_owner": "host:1/7", "lease_expires_at": NOW + SECOND}, None, True),
        ({"lease_owner": "host:1/7", "lease_expires_at": NOW}, None, False),
        ({"lease_owner": "host:2/7", "lease_expires_at": NOW + SECOND}, None, False),
        ({"lease_owner": "host:1", "lease_expires_at": NOW + SECOND}, None, False),
        (
            {"lease_owner": "e/7", "lease_expires_at": NOW + SECOND, "runner": "engine"},
            None,
            True,
        ),
        ({}, NOW, False),
        ({"runner": "engine"}, NOW - 59 * SECOND, True),
        ({"runner": "engine"}, NOW - 60 * SECOND, False),
        ({"runner": "engine", "accepted_at": NOW - 60 * SECOND}, None, False),
    ],
)
def test_a_turn_is_held_by_who_may_still_have_it(
    fields: dict[str, Any], woken_at: datetime | None, held: bool
) -> None:
    assert is_held(turn_of(**fields), woken_at, around(process_of("host:1"))) is held


def test_an_obstacle_is_the_first_thing_that_is_missing() -> None:
    turn = turn_of()

    def found(*processes: ProcessRecord) -> Obstacle | None:
        return obstacle(turn, around(*processes), QUEUES)

    going = process_of(draining=True)
    assert found() is Obstacle.NO_WORKER
    assert found(going) is Obstacle.DRAINING
    assert found(going, process_of(queues=("other",))) is Obstacle.NO_READER
    assert found(process_of(slots=0)) is Obstacle.NO_READER
    assert found(process_of(signatures={})) is Obstacle.NOT_SERVED
    assert found(going, process_of("host:2")) is None


def test_a_cancelled_turn_with_its_answer_still_needs_its_definition() -> None:
    """Its upkeep does: only before persist a cancellation ends it wherever it is claimed."""
    asked = {"cancel_requested_at": NOW}
    stranger = around(process_of(signatures={}))
    compacting = turn_of(status=TurnStatus.AWAITING_INPUT, stage=Stage.COMPACT, **asked)

    assert obstacle(turn_of(**asked), stranger, QUEUES) is None
    assert obstacle(compacting, stranger, QUEUES) is Obstacle.NOT_SERVED


def test_what_is_over_or_waits_for_a_person_is_never_stuck() -> None:
    settled = turn_of(status=TurnStatus.FAILED, stage=Stage.DONE)
    paused = turn_of(status=TurnStatus.PAUSED)

    assert is_stuck(turn_of(), None, around(), QUEUES)
    assert not is_stuck(settled, None, around(), QUEUES)
    assert not is_stuck(paused, None, around(), QUEUES)


def test_a_settled_turn_is_served_by_nobody() -> None:
    process = process_of()

    assert serving(turn_of(), around(process), QUEUES) == [process]
    assert serving(turn_of(stage=Stage.DONE), around(process), QUEUES) == []


def test_capacity_is_the_slots_of_those_who_stay_or_the_cap() -> None:
    """[DESIGN 5, Admit]."""
    processes = around(process_of(slots=2), process_of(slots=3), process_of(slots=9, draining=True))

    assert capacity(processes, None) == 5
    assert capacity(processes, 7) == 7
    assert capacity(around(), None) == 1
