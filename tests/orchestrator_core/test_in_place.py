"""Stages run in place, one behind the other under one claim. [DESIGN 5 Chain modes, ADR 0016]"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.orchestrator_core.builders import Crash, PatientLedger, World, counter, refusal_of
from turnchain.orchestrator_core.callbacks import IntentContext
from turnchain.orchestrator_core.contracts import STAGES, Claim, Owner, Stage, TurnStatus, Wake
from turnchain.orchestrator_core.errors import (
    CancelRequested,
    HandBackAsked,
    LeaseLost,
    TurnConflictError,
)
from turnchain.orchestrator_core.runner import Passage, let_go, run_stage
from turnchain.orchestrator_core.turn_context import TurnContext
from turnchain.stores.memory import MemoryUnit
from turnchain.stores.memory.tables import SessionRow

STOPS = pytest.mark.parametrize("looks", range(4))
"""How many boundaries the turn passes: before drift, lock, window, dispatch."""


def everywhere(stage: Stage) -> bool:
    return True


class InPlace:
    """One process that goes on in place, stage by stage."""

    def __init__(self, world: World, goes_on: Callable[[Stage], bool] = everywhere) -> None:
        self.world = world
        self.goes_on = goes_on
        self.stages: list[Stage] = []

    def run(self, wake: Wake, held: TurnContext | None = None) -> Passage:
        self.stages.append(wake.stage)
        return run_stage(wake, self.world.env, held=held, goes_on=self.goes_on)

    def play(self, wake: Wake, *, until: Stage = Stage.DONE) -> Passage:
        """Until nothing is held any more, or before this stage."""
        passage = self.run(wake)
        while passage.held and passage.following and passage.following.stage is not until:
            passage = self.run(passage.following, passage.held)
        return passage


def test_a_turn_passes_the_seven_stages_under_one_claim() -> None:
    world = World(counter())
    wake = world.admitted()
    process = InPlace(world)

    process.play(wake)

    turn = world.turn(wake)
    assert process.stages == list(STAGES)
    assert (turn.status, turn.stage, turn.fence) == (TurnStatus.AWAITING_INPUT, Stage.DONE, 0)
    assert world.leases.serial == 1
    assert world.leases.kept == []


def test_a_turn_of_one_call_is_written_three_times() -> None:
    """On record before the call, settled behind it, done: each a transaction, and no other."""
    world = World(counter(intents={"bump": lambda ctx: {"count": 1}}, iterate=False))
    units = _counting(world)
    InPlace(world).play(world.admitted())

    assert units == ["load", "dispatch", "compact"]


def test_the_ledger_has_the_turn_where_it_was_until_something_must_be_stored() -> None:
    world = World(counter())
    wake = world.admitted()

    InPlace(world).play(wake, until=Stage.DISPATCH)

    turn = world.turn(wake)
    assert (turn.stage, turn.attempts) == (Stage.LOAD, 0)
    assert turn.lease_owner is not None
    assert world.events(wake) == []


def test_before_the_first_call_all_that_was_put_off_is_stored() -> None:
    """[O 0.3 X14] A call may take effect: where the turn stands must be known by then."""
    seen: list[tuple[Stage, bool, list[str]]] = []

    def intent(ctx: IntentContext) -> None:
        (row,) = world.stores.tables.turns.values()
        names = world.event_names(row.wake)
        seen.append((row.stage, world.snapshot(row.wake) is not None, names))
        assert world.session() in world.stores.tables.sessions

    world = World(counter(intents={"bump": intent}))
    InPlace(world).play(world.admitted())

    names = ["turn.starting", "session.loaded", "drift.checked", "history.windowed"]
    assert seen == [(Stage.DISPATCH, True, names)]


def test_a_crash_in_a_call_leaves_the_turn_in_dispatch_with_its_run() -> None:
    def intent(ctx: IntentContext) -> None:
        raise Crash

    world = World(counter(intents={"bump": intent}))
    wake = world.admitted()
    with pytest.raises(Crash):
        InPlace(world).play(wake)

    assert world.turn(wake).stage is Stage.DISPATCH
    assert world.snapshot(wake) is not None
    assert world.leases.kept == []


def test_a_stage_that_nobody_here_serves_is_handed_over_with_all_that_was_put_off() -> None:
    world = World(counter())
    wake = world.admitted()

    passage = InPlace(world, lambda stage: stage is not Stage.DISPATCH).play(wake)

    turn = world.turn(wake)
    assert (passage.held, passage.following) == (
        None,
        wake.model_copy(update={"stage": Stage.DISPATCH}),
    )
    assert (turn.stage, turn.lease_owner, turn.turn_index) == (Stage.DISPATCH, None, 0)
    assert len(world.events(wake)) == 4
    assert world.play(passage.following) == [Stage.DISPATCH, Stage.PERSIST, Stage.COMPACT]


def test_the_outcome_is_stored_before_a_stage_on_another_queue() -> None:
    world = World(counter())
    wake = world.admitted()

    passage = InPlace(world, lambda stage: stage is not Stage.PERSIST).play(wake)

    assert passage.following is not None
    run = world.snapshot(wake)
    assert run is not None
    assert run.terminated_by == "route"
    assert world.play(passage.following) == [Stage.PERSIST, Stage.COMPACT]


@STOPS
def test_a_process_that_goes_away_gives_the_turn_back_where_the_ledger_has_it(looks: int) -> None:
    world = World(counter())
    wake = world.admitted()
    world.watch.stops(HandBackAsked, after=looks)

    passage = InPlace(world).play(wake)

    back = Wake(turn_id=wake.turn_id, stage=Stage.LOAD, fence=1)
    assert (passage.others, passage.handed_back) == ((back,), True)
    assert world.events(wake) == []


@STOPS
def test_a_process_that_lost_the_turn_writes_nothing(looks: int) -> None:
    """[O 15.5 I4]"""
    world = World(counter())
    wake = world.admitted()
    world.watch.stops(LeaseLost, after=looks)

    assert refusal_of(InPlace(world).play(wake)).reason == "moved-on"

    assert world.turn(wake).stage is Stage.LOAD
    assert world.events(wake) == []
    assert world.leases.kept == []


@STOPS
def test_a_cancellation_is_heard_at_every_boundary(looks: int) -> None:
    world = World(counter())
    wake = world.admitted()
    world.watch.stops(CancelRequested, after=looks)

    InPlace(world).play(wake)

    assert world.result(wake).status is TurnStatus.CANCELLED
    assert world.turn(wake).stage is Stage.DONE


def test_a_cancellation_behind_the_last_boundary_sends_the_turn_through_persist() -> None:
    """[DESIGN 5] What the run came to is stored; `persist` is claimed, and hears it."""

    def cancel(ctx: IntentContext) -> None:
        world.ledger.request_cancel(wake.turn_id, Owner())

    world = World(counter(intents={"bump": cancel}, iterate=False))
    wake = world.admitted()

    passage = InPlace(world).play(wake)

    assert (passage.held, world.turn(wake).stage) == (None, Stage.PERSIST)
    assert passage.following is not None
    world.play(passage.following)
    assert world.result(wake).status is TurnStatus.CANCELLED


def test_a_session_of_another_owner_ends_the_turn_as_it_does_by_messages() -> None:
    """[DESIGN 2] The session's row came between accept and the first write."""

    def left(in_place: bool) -> tuple[Any, list[str], int | None]:
        world = World(counter())
        wake = world.admitted()
        world.stores.tables.sessions[world.session()] = SessionRow(
            owner=Owner(tenant="x"), created_at=world.clock.now()
        )
        InPlace(world).play(wake) if in_place else world.play(wake)
        error = world.result(wake).error
        return (error and error.code), world.event_names(wake), world.turn(wake).turn_index

    assert left(True) == left(False)
    assert left(True)[0] == "SESSION_OWNER"


def test_a_conflict_and_a_cancellation_at_once_are_both_answered() -> None:
    """The outcome meets a taken index, and what it becomes of that, a cancellation: still nothing escapes."""
    world = World(counter(intents={"bump": lambda ctx: {"count": 1}}, iterate=False))
    wake = world.admitted()
    process = InPlace(world)
    before = process.play(wake, until=Stage.PERSIST)
    units: list[Stage] = []

    class Unlucky(PatientLedger):
        def unit(self, claim: Claim, *, durable: bool) -> Any:
            units.append(claim.turn.stage)
            if len(units) == 1:
                raise TurnConflictError("another turn settled this index")
            if len(units) == 2:
                self.request_cancel(wake.turn_id, Owner())
            return super().unit(claim, durable=durable)

    world.keeping(Unlucky)
    assert before.following is not None
    passage = process.run(before.following, before.held)

    assert (passage.held, passage.status) == (None, None)
    assert passage.following is not None
    world.play(passage.following)
    assert world.result(wake).status is TurnStatus.CANCELLED


def test_a_foreign_session_and_a_cancellation_at_once_are_both_answered() -> None:
    world = World(counter())
    wake = world.admitted()
    process = InPlace(world)
    before = process.play(wake, until=Stage.DRIFT)
    assert before.held is not None
    assert before.following is not None
    drifted = before.held.found(head_signature="other")
    world.stores.tables.sessions[world.session()] = SessionRow(
        owner=Owner(tenant="x"), created_at=world.clock.now()
    )
    world.ledger.request_cancel(wake.turn_id, Owner())

    refused = process.run(before.following, drifted)
    assert refused.following is not None
    passage = process.run(refused.following, refused.held)

    assert passage.held is None
    assert passage.following is not None
    world.play(passage.following)
    assert world.result(wake).status is TurnStatus.CANCELLED
    assert world.leases.kept == []


def test_what_is_shown_of_a_turn_is_ids() -> None:
    """[DESIGN 1.6] Error trackers keep local variables."""
    world = World(counter())
    passage = InPlace(world).run(world.admitted("a secret"))

    assert "a secret" not in repr(passage)
    assert "a secret" not in repr(passage.held)


def test_a_turn_that_parks_has_said_what_was_put_off() -> None:
    world = World(counter())
    InPlace(world).play(world.admitted("first"))
    session = world.stores.tables.sessions[world.session()]
    session.lock_acquired_at = world.clock.now()
    session.lock_expires_at = world.clock.now() + world.env.policy.lock_max_wait
    wake = world.admitted("second")

    passage = InPlace(world).play(wake)

    assert passage.park is not None
    turn = world.turn(wake)
    assert (turn.stage, turn.parked, turn.lease_owner) == (Stage.LOAD, "compaction", None)
    assert world.event_names(wake)[:2] == ["turn.starting", "session.loaded"]


def test_a_turn_whose_next_stage_is_not_run_after_all_is_let_go() -> None:
    world = World(counter())
    passage = InPlace(world).run(world.admitted())
    assert passage.held is not None

    let_go(passage.held, world.env)

    assert world.leases.kept == []


def test_other_turns_are_admitted_when_the_last_stage_is_through() -> None:
    """A turn that goes on with `compact` keeps its slot for a moment more."""
    world = World(counter())
    first = world.admitted("first")
    second = world.accepted("second")

    passage = InPlace(world).play(first)

    assert [wake.turn_id for wake in passage.others] == [second]


def _counting(world: World) -> list[str]:
    """The stages from which units are written from now on."""
    stages: list[str] = []

    class Counting(PatientLedger):
        @contextmanager
        def unit(self, claim: Claim, *, durable: bool) -> Generator[MemoryUnit]:
            stages.append(claim.turn.stage.value)
            with super().unit(claim, durable=durable) as unit:
                yield unit

    world.keeping(Counting)
    return stages
