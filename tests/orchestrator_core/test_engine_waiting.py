"""What an engine waits for, what stops it on its way, and what comes after the answer is out."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from tests.orchestrator_core.builders import (
    NOBODY,
    SECOND,
    Crash,
    PatientLedger,
    World,
    code_of,
    counter,
    finished,
    walker,
)
from turnchain.orchestrator_core.callbacks import (
    IntentContext,
)
from turnchain.orchestrator_core.contracts import (
    Claim,
    Refusal,
    SessionKey,
    Stage,
    TurnId,
    TurnResult,
    TurnStatus,
    Wake,
)
from turnchain.orchestrator_core.engine import ENGINE_LEASE, InPlaceLeases
from turnchain.orchestrator_core.errors import (
    CancelRequested,
    DeadlinePassed,
    LeaseLost,
    StoreUnavailableError,
)
from turnchain.stores.memory import MemoryCheckpoints

# -- waiting for the session


def test_a_turn_waits_for_the_one_before_it() -> None:
    """[O 15.1 G3, O 16.5 T9] Both run, in order; the second builds on the first."""
    world = World(counter())
    first = world.admitted("FIRST")

    def meanwhile(_: timedelta) -> None:
        world.play(first)

    world.meantime.passes = meanwhile

    result = finished(world.execute("SECOND"))

    assert world.result(first).turn_index == 0
    assert (result.turn_index, result.data) == (1, {"count": 2, "lastInput": "SECOND"})


def test_turns_of_many_threads_on_one_session_are_one_after_the_other() -> None:
    """[O 15.1 G1, O 15.5 I1, O 16.5 T15]."""
    world = World(counter())
    world.using(ledger=world.stores.ledger)  # whose listeners hear of what other threads settle
    results: list[TurnResult] = []
    threads = [
        threading.Thread(target=lambda: results.extend(world.execute() for _ in range(3)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert sorted(result.turn_index or 0 for result in results) == list(range(12))
    assert world.state()["count"] == 12


def test_a_turn_that_is_cancelled_while_it_waits_ends_so() -> None:
    """[O 2.10]."""
    world = World(counter())
    world.admitted("FIRST")

    def meanwhile(_: timedelta) -> None:
        waiting = list(world.stores.tables.turns)[-1]
        world.ledger.request_cancel(waiting, NOBODY)

    world.meantime.passes = meanwhile

    result = world.execute("SECOND")

    assert (result.status, result.turn_index, result.report) == (TurnStatus.CANCELLED, None, None)


def test_a_deadline_counts_while_a_turn_waits() -> None:
    """[DESIGN 10] Nobody else need be there to see that it passed."""
    world = World(counter())
    world.admitted("FIRST")
    looks: list[timedelta] = []

    def meanwhile(timeout: timedelta) -> None:
        looks.append(timeout)
        assert len(looks) < 10, "it waits for ever"
        world.clock.moves(timeout)

    world.meantime.passes = meanwhile

    result = world.execute("SECOND", deadline=world.clock.instant + 3 * SECOND)

    assert code_of(result) == "DEADLINE_EXCEEDED"


def test_other_turns_that_become_ready_are_published() -> None:
    world = World(counter())
    behind: list[TurnId] = []

    def intent(ctx: IntentContext) -> None:
        behind.append(world.accepted("for a worker"))

    world = World(counter(intents={"bump": intent}), beside=world)
    world.execute()

    assert [wake.turn_id for wake in world.published.wakes] == behind


# -- stopped on its way


def test_a_turn_that_was_cancelled_before_it_began_reports_so() -> None:
    """[O 16.1 18, O 3.9.1] No raise, nothing dispatched."""
    calls: list[int] = []
    world = World(counter(intents={"bump": lambda ctx: calls.append(1)}))

    class Cancelling(PatientLedger):
        def admit_turn(self, turn_id: TurnId) -> Wake | None:
            wake = super().admit_turn(turn_id)
            self.request_cancel(turn_id, NOBODY)
            return wake

    world.keeping(Cancelling)

    result = world.execute()

    assert (result.status, calls) == (TurnStatus.CANCELLED, [])
    assert [name for name in world.event_names(result) if name.startswith("turn.")] == [
        "turn.cancelled"
    ]


def test_a_cancel_stops_a_turn_at_its_next_iteration() -> None:
    """[O 3.9.2, O 16.1 25, O 16.3 61] Iteration 1 still settles; the session stays at turn 0."""
    world = World(walker(3))
    world.execute()
    before = world.head()

    def walk(ctx: IntentContext) -> None:
        if ctx.iteration == 1:
            assert world.ledger.request_cancel(TurnId(ctx.run_id), NOBODY) == "requested"

    cancelled = World(walker(3, intents={"walk": walk}), beside=world)

    result = cancelled.execute()

    assert (result.status, result.turn_index) == (TurnStatus.CANCELLED, 1)
    assert code_of(result) == "ORCHESTRATOR_CANCELLED"
    assert result.report is not None
    assert (result.report.iterations, result.report.terminated_by) == (2, "cancelled")
    assert world.head() == before


def test_a_cancel_from_another_thread_stops_an_async_intent() -> None:
    """[DESIGN 10] With the call aborted, within a look."""
    began, aborted = threading.Event(), threading.Event()
    turn_ids: list[TurnId] = []

    async def walk(ctx: IntentContext) -> None:
        turn_ids.append(TurnId(ctx.run_id))
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            aborted.set()

    world = World(walker(1, intents={"walk": walk}))
    results: list[TurnResult] = []
    thread = threading.Thread(target=lambda: results.append(world.execute()))
    thread.start()
    assert began.wait(10)

    world.ledger.request_cancel(turn_ids[0], NOBODY)
    world.clock.moves(2 * SECOND)
    thread.join(10)

    assert aborted.wait(10)
    assert results[0].status is TurnStatus.CANCELLED


def test_a_deadline_stops_a_turn_at_its_next_iteration() -> None:
    """[O 15.4 G39]."""
    world = World(walker(3, intents={"walk": lambda ctx: world.clock.moves(2 * SECOND)}))

    result = world.execute(deadline=world.clock.instant + 3 * SECOND)

    assert (result.status, code_of(result)) == (TurnStatus.FAILED, "DEADLINE_EXCEEDED")
    assert result.report is not None
    assert result.report.iterations == 2


def test_a_turn_parked_behind_a_compaction_goes_on_by_itself() -> None:
    """[O 16.1 24] Nobody else wakes an engine's turn: `execute` raised IndexError and left the session stuck."""
    world = World(counter())
    world.execute(state={"count": 4})
    world.compacts(timedelta(minutes=1))
    began = world.clock.instant

    result = finished(world.execute())

    assert (result.turn_index, result.data["count"]) == (1, 6)
    assert "lock.waiting" in world.event_names(result)
    waited = world.clock.instant - began
    assert world.env.policy.lock_max_wait <= waited < 2 * world.env.policy.lock_max_wait


def test_a_turn_that_a_worker_ran_on_gives_its_result_all_the_same() -> None:
    """A sweep may publish it while its engine is held up: the engine then waits for who was faster."""
    world = World(counter())
    ran: list[Any] = []

    class Faster(PatientLedger):
        """A worker that claims `drift` before the engine does."""

        def claim(self, wake: Wake, lease_owner: str, lease: timedelta) -> Claim | Refusal:
            if wake.stage is Stage.DRIFT and not ran:
                ran.append(super().claim(wake, "worker:1/1", lease))
            return super().claim(wake, lease_owner, lease)

    world.keeping(Faster)
    worker = World(counter(), beside=world)

    def meanwhile(_: timedelta) -> None:
        row = next(iter(world.stores.tables.turns.values()))
        world.ledger.hand_back(ran[0])
        worker.play(row.wake)

    world.meantime.passes = meanwhile

    assert finished(world.execute()).data["count"] == 1


def test_a_turn_that_a_worker_moved_on_is_not_published_to_more_of_them() -> None:
    world = World(counter())
    worker = World(counter(), beside=world)

    class Faster(PatientLedger):
        """A worker that runs `drift` before the engine gets to it."""

        def claim(self, wake: Wake, lease_owner: str, lease: timedelta) -> Claim | Refusal:
            if wake.stage is Stage.DRIFT and lease_owner.startswith("engine"):
                worker.run(wake)
            return super().claim(wake, lease_owner, lease)

    world.keeping(Faster)

    assert finished(world.execute()).data["count"] == 1
    assert world.published.wakes == []


def test_a_turn_whose_lease_was_lost_reports_what_became_of_it() -> None:
    """It was taken for dead, and ended so."""

    def walk(ctx: IntentContext) -> None:
        world.clock.moves(ENGINE_LEASE + SECOND)
        world.ledger.take_over_expired(3)

    world = World(walker(2, intents={"walk": walk}))

    result = world.execute()

    assert code_of(result) == "TURN_INTERRUPTED"


# -- after the answer is out


class NoPruning(MemoryCheckpoints):
    def prune(self, session: SessionKey, *, keep_before: int) -> None:
        raise StoreUnavailableError("read-only replica")


def test_upkeep_that_fails_does_not_fail_a_committed_turn() -> None:
    """[O 2.10] It raised out of `execute`, with the turn committed and its result lost to the caller."""
    world = World(counter(keep_snapshots=1))
    world.execute()
    world.using(checkpoints=NoPruning(world.stores.tables))

    result = finished(world.execute())

    assert (result.turn_index, world.state()["count"]) == (1, 2)
    assert world.event_names(result)[-1] == "compaction.failed"
    assert finished(world.execute()).turn_index == 2


def test_a_crash_in_upkeep_is_still_a_crash() -> None:
    class Dies(MemoryCheckpoints):
        def prune(self, session: SessionKey, *, keep_before: int) -> None:
            raise Crash

    world = World(counter(keep_snapshots=1))
    world.execute()
    world.using(checkpoints=Dies(world.stores.tables))

    world.crash()

    assert world.state()["count"] == 2
    assert world.resume() is None


# -- the engine's leases


def leases() -> tuple[World, InPlaceLeases]:
    world = World(counter())
    return world, InPlaceLeases(world.ledger, world.clock, "host:1")


def test_owners_are_named_after_their_process_and_never_twice() -> None:
    _, kept = leases()
    owners: list[str] = []
    threads = [
        threading.Thread(target=lambda: owners.extend(kept.new_owner() for _ in range(200)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(owners)) == 800
    assert all(owner.startswith("host:1/") for owner in owners)


def test_a_look_renews_the_lease_and_tells_what_it_hears() -> None:
    world, kept = leases()
    claim = world.inside(world.admitted(deadline=world.clock.instant + 9 * SECOND)).claim
    watch = kept.begin(claim, timedelta(0))

    watch.check()
    turn = world.turn(claim.wake)
    assert turn.lease_expires_at == world.clock.instant + ENGINE_LEASE

    world.clock.moves(9 * SECOND)
    with pytest.raises(DeadlinePassed):
        watch.check()
    world.ledger.request_cancel(claim.turn.turn_id, NOBODY)
    with pytest.raises(CancelRequested):
        watch.check()
    world.drain()
    with pytest.raises(LeaseLost):
        watch.check()
    kept.end(claim)


def test_inside_a_call_it_looks_once_a_second() -> None:
    world, kept = leases()
    claim = world.inside(world.admitted()).claim
    watch = kept.begin(claim, timedelta(0))
    world.ledger.request_cancel(claim.turn.turn_id, NOBODY)

    watch.check_call()
    world.clock.moves(SECOND)
    watch.check_call()
    world.clock.moves(SECOND / 10)
    with pytest.raises(CancelRequested):
        watch.check_call()
    world.clock.moves(SECOND)
    watch.check_call()
