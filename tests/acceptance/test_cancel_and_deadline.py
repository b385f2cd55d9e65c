"""Turns that somebody cancels, or that come too late. [DESIGN 10]"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.acceptance.database import wait_for
from tests.acceptance.harness import SWEPT, Floor
from turnchain import Turn

pytestmark = pytest.mark.acceptance

READ_BY_OWNER = 2.0
"""[DESIGN 10] Cancel is read by the owner within this, as shipped."""
SHIPPED_HOUSEKEEPING = {"lease": 20, "housekeeping": 2}


def in_a_call(floor: Floor, intent: str, **arguments: object) -> Turn:
    """A turn whose first intent has begun and waits."""
    floor.close_door(f"{intent}-s1-0")
    turn = floor.enqueue("s1", [intent, "work"], **arguments)
    wait_for(lambda: floor.database.visit(turn, "s1", intent, 0), 10, f"{intent} at the door")
    return turn


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_an_async_call_is_aborted_within_two_seconds_of_the_cancellation(
    floor: Floor, pool: str
) -> None:
    """[DESIGN 10] Running turns end at the next boundary, with the model call aborted."""
    database = floor.database
    floor.start(pool=pool, settings=SHIPPED_HOUSEKEEPING)
    turn = in_a_call(floor, "talk")

    asked_at = database.now()
    assert turn.cancel() == "requested"

    result = turn.result(READ_BY_OWNER + 1)
    assert result.status == "cancelled"
    aborted = database.visits("s1", "talk cancelled")
    assert len(aborted) == 1
    assert aborted[0]["at"] - asked_at < timedelta(seconds=READ_BY_OWNER + 0.3)
    assert database.events(turn)[-1] == "orchestrator.turn.cancelled"
    assert database.checkpoints("s1") == []
    assert not database.visits("s1", "work")
    assert floor.enqueue("s1").result(10).turn_index == 0, "the index is free, and the session"


def test_a_sync_call_runs_to_its_end_and_nothing_after_it(floor: Floor) -> None:
    """[DESIGN 10] A sync call cannot be aborted; the turn ends at the boundary behind it."""
    database = floor.database
    floor.start(pool="threads")
    turn = in_a_call(floor, "work")

    assert turn.cancel() == "requested"
    assert turn.cancel() == "requested"
    asked_at = database.now()
    lease = timedelta(seconds=database.lease)
    wait_for(lambda: database.turn(turn)["lease_expires_at"] > asked_at + lease, 5, "a renewal")
    floor.open_door("work-s1-0")

    assert turn.result(5).status == "cancelled"
    assert len(database.visits("s1", "work")) == 1
    assert turn.cancel() == "too-late"


def test_a_queued_turn_ends_at_once_and_without_a_worker(floor: Floor) -> None:
    """[DESIGN 10] Queued turns end at once; here nobody is there who could run anything."""
    floor.accept("s1")
    second = floor.accept("s1")

    assert second.cancel() == "cancelled"

    assert second.result(0.5).status == "cancelled"
    assert floor.database.claims(second) == []
    assert floor.database.turn(second)["stage"] == "done"


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_cancellation_during_persist_is_too_late(floor: Floor, pool: str) -> None:
    """[DESIGN 5] Cancel is honoured until persist claims; later it gets a typed `too-late`."""
    database = floor.database
    floor.start(pool=pool)
    with database.claim_gate("persist") as gate:
        turn = floor.enqueue("s1")
        gate.wait()
        with database.held("LOCK TABLE turnchain_snapshots IN ACCESS EXCLUSIVE MODE"):
            gate.open()
            wait_for(lambda: database.somebody_waits("turnchain_snapshots"), 5, "persist")
            assert database.turn(turn)["lease_owner"]

            assert turn.cancel() == "too-late"

        assert turn.result(5).status == "awaiting-input"
        floor.assert_settled_once(turn, "s1")


def test_a_deadline_passes_while_the_turn_waits_behind_another(floor: Floor) -> None:
    """[DESIGN 10] `deadline_at` covers waiting; the row follows with the first sweep, and the first turn runs on."""
    database = floor.database
    floor.start(pool="threads")
    first = in_a_call(floor, "work")
    late = floor.enqueue("s1", deadline=datetime.now(UTC) + timedelta(seconds=0.5))
    following = floor.enqueue("s1")

    result = late.result(0.5 + SWEPT)

    assert result.status == "failed"
    assert result.error_record is not None
    assert result.error_record["code"] == "DEADLINE_EXCEEDED"
    assert database.claims(late) == []
    floor.open_door("work-s1-0")
    assert first.result(10).ok
    assert following.result(10).turn_index == 1


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_deadline_passes_while_the_turn_runs(floor: Floor, pool: str) -> None:
    """[DESIGN 10] `deadline_at` covers running: the call is aborted, the turn fails."""
    database = floor.database
    floor.start(pool=pool)
    turn = in_a_call(floor, "talk", deadline=datetime.now(UTC) + timedelta(seconds=1.5))

    result = turn.result(1.5 + SWEPT)

    assert result.status == "failed"
    assert result.error_record is not None
    assert result.error_record["code"] == "DEADLINE_EXCEEDED"
    assert len(database.visits("s1", "talk cancelled")) == 1
    assert database.events(turn)[-1] == "orchestrator.turn.failed"
    assert floor.enqueue("s1").result(10).ok
