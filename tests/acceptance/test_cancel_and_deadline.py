"""Turns that somebody cancels, or that come too late. [DESIGN 10]"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.acceptance.database import wait_for
from tests.acceptance.harness import SWEPT, Floor, both_modes, effects_of, inline, pools
from tests.acceptance.places import ROW, WRITES
from turnchain import Turn

pytestmark = pytest.mark.acceptance

READ_BY_OWNER = 2.0
"""[DESIGN 10] Cancel is read by the owner within this, as shipped."""
CANCELS = "coalesce(cancel_requested_at"
SHIPPED_HOUSEKEEPING = {"lease": 20, "housekeeping": 2}


def in_a_call(floor: Floor, intent: str, **arguments: object) -> Turn:
    """A turn whose first intent has begun and waits."""
    floor.close_door(f"{intent}-s1-0")
    turn = floor.enqueue("s1", [intent, "work"], **arguments)
    wait_for(lambda: floor.database.visit(turn, "s1", intent, 0), 10, f"{intent} at the door")
    return turn


@pools(inline=["threads"])
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


@both_modes
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
    assert database.turn(turn)["takeovers"] == 0, "its owner had renewed"
    assert turn.cancel() == "too-late"


def test_a_queued_turn_ends_at_once_and_without_a_worker(floor: Floor) -> None:
    """[DESIGN 10] Queued turns end at once; here nobody is there who could run anything."""
    floor.accept("s1")
    second = floor.accept("s1")

    assert second.cancel() == "cancelled"

    assert second.result(0.5).status == "cancelled"
    assert floor.database.claims(second) == []
    assert floor.database.turn(second)["stage"] == "done"


@pools()
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


def at_the_end(floor: Floor, **arguments: Any) -> Turn:
    """A turn before its last decision, with one iteration that is saved."""
    floor.close_door("end-s1")
    turn = floor.enqueue("s1", **arguments)
    wait_for(lambda: floor.database.visit(turn, "s1", "end", 1), 10, "the end at its door")
    return turn


def assert_stopped_before_its_outcome(floor: Floor, turn: Turn) -> None:
    """`persist` was asked after all, and the session is as it was."""
    database = floor.database
    wait_for(lambda: database.stands(turn, stage="done"), 5, "done")
    assert database.claims(turn) == [("load", 0), ("persist", 0)]
    assert database.checkpoints("s1") == []
    assert database.effects(turn) == effects_of(1)
    assert database.attempts(turn) == {0}
    assert floor.enqueue("s1").result(10).turn_index == 0


@inline
def test_a_cancellation_that_comes_before_the_outcomes_transaction_is_honoured_by_it(
    floor: Floor,
) -> None:
    """[ADR 0016] Nobody claims persist in place, so it is the transaction itself that looks."""
    database = floor.database
    floor.start(pool="threads")
    turn = at_the_end(floor)
    with ThreadPoolExecutor(1) as caller:
        with database.held(ROW, turn.turn_id):
            asked = caller.submit(turn.cancel)
            wait_for(lambda: database.somebody_waits(CANCELS), 5, "the cancellation")
            floor.open_door("end-s1")
            wait_for(lambda: database.somebody_waits(WRITES), 5, "the outcome, behind it")

        assert asked.result(5) == "requested"

    assert turn.result(5).status == "cancelled"
    assert database.events(turn)[-1] == "orchestrator.turn.cancelled"
    assert_stopped_before_its_outcome(floor, turn)


@inline
def test_a_cancellation_that_comes_behind_the_outcomes_transaction_is_too_late(
    floor: Floor,
) -> None:
    """[DESIGN 5] Later it gets a typed `too-late`."""
    floor.start(concurrency=1)
    with ThreadPoolExecutor(1) as caller:
        with floor.outcome_gate() as gate:
            turn = floor.enqueue("s1")
            gate.wait()
            asked = caller.submit(turn.cancel)
            wait_for(lambda: floor.database.somebody_waits(CANCELS), 5, "the cancellation")
            gate.open()

        assert asked.result(5) == "too-late"

    assert turn.result(5).status == "awaiting-input"
    floor.assert_settled_once(turn, "s1")


@inline
def test_a_deadline_that_passes_before_the_outcomes_transaction_is_honoured_by_it(
    floor: Floor,
) -> None:
    """[DESIGN 10] Readers report it as expired from that moment, so nothing may be answered later."""
    database = floor.database
    floor.start(pool="threads", settings={"lease": 9, "housekeeping": 3})
    deadline = datetime.now(UTC) + timedelta(seconds=1)
    turn = at_the_end(floor, deadline=deadline)
    wait_for(lambda: database.now() > deadline, 5, "the deadline")
    floor.open_door("end-s1")

    result = turn.result(5)

    assert result.status == "failed"
    assert result.error_record is not None
    assert result.error_record["code"] == "DEADLINE_EXCEEDED"
    assert_stopped_before_its_outcome(floor, turn)


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


@pools(inline=["prefork"])
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
