"""The supervisor in its turn: every iteration saved before the next, and nothing settled called again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.orchestrator_core.builders import (
    HISTORY5,
    SECOND,
    Crash,
    World,
    a_provider,
    bump,
    counter,
    walker,
)
from turnchain.orchestrator_core.callbacks import (
    END,
    AgentResult,
    DriftContext,
    IntentContext,
    ProviderContext,
)
from turnchain.orchestrator_core.contracts import (
    IterationSnapshot,
    Outcome,
    Stage,
    SupervisorRun,
    TurnStatus,
    Usage,
    Wake,
)
from turnchain.orchestrator_core.definition import Intent
from turnchain.orchestrator_core.errors import (
    CancelRequested,
    DeadlinePassed,
    HandBackAsked,
    LeaseLost,
    StoreUnavailableError,
)
from turnchain.orchestrator_core.ports import Unit
from turnchain.orchestrator_core.stages import dispatch
from turnchain.orchestrator_core.turn_context import TurnContext
from turnchain.stores.memory import MemorySnapshots


def dispatched(world: World, **arguments: Any) -> TurnContext:
    """A turn behind its `dispatch`."""
    return dispatch.run(world.at(Stage.DISPATCH, **arguments), world.env)


def outcome_of(turn: TurnContext) -> Outcome:
    outcome = turn.work.outcome
    assert outcome is not None
    return outcome


def error_of(turn: TurnContext) -> dict[str, Any]:
    error = outcome_of(turn).error
    assert error is not None
    return error


def paid(do: Callable[[IntentContext], Any], calls: list[int]) -> Any:
    """An intent that notes in which iteration it was called."""

    def intent(ctx: IntentContext) -> Any:
        calls.append(ctx.iteration)
        return do(ctx)

    return intent


def walks(world: World, wake: Wake) -> list[int]:
    """The path that the settled iterations left."""
    run = world.snapshot(wake)
    assert run is not None
    return run.state.get("path", [])


# -- the seed


def test_a_run_begins_with_the_sessions_state_and_the_calls_patch() -> None:
    """[O 2.5.1, O 2.5.2, O 16.1 3] Under the one key guard."""
    world = World(counter(state={"count": 0, "slots": {"a": 1}}))

    turn = dispatched(world, state={"count": 41, "slots": {"b": 2}, "constructor": "x"})

    run = world.snapshot(turn)
    assert run is not None
    assert run.seed_state == {"count": 41, "slots": {"b": 2}}
    assert outcome_of(turn).state == {"count": 42, "lastInput": "hello", "slots": {"b": 2}}


def test_the_definitions_state_is_not_applied_again() -> None:
    """[O 2.2.3, O 16.1 5]."""
    world = World(counter())
    world.execute()

    assert outcome_of(dispatched(world)).data["count"] == 2


def test_a_run_holds_all_that_resuming_needs() -> None:
    """[O 3.14.7]."""
    world = World(walker(2, version="7", max_iterations=4))

    turn = dispatched(world, input={"say": "hi"})

    run = world.snapshot(turn)
    assert run is not None
    assert (run.run_id, run.session) == (turn.claim.turn.run_id, world.session())
    assert (run.turn_index, run.signature, run.version) == (0, world.signature, "7")
    assert (run.input, run.max_iterations, run.iterate) == ({"say": "hi"}, 4, True)
    assert (run.terminated_by, run.iteration) == ("route", 2)


# -- saved before the next begins


def test_a_run_is_on_record_before_its_first_call() -> None:
    """[O 0.3 X14, O 15.2 G11, O 16.5 T7]."""
    world = World(walker(3))
    seen: list[SupervisorRun | None] = []
    wake = world.ready(Stage.DISPATCH)
    spy = world.serving(walker(3, route=lambda ctx: seen.append(world.snapshot(wake)) or END))

    dispatch.run(spy.inside(wake), spy.env)

    (first,) = seen
    assert first is not None
    assert (first.iteration, first.terminated_by) == (-1, None)


def test_each_iteration_is_on_record_before_the_next_begins() -> None:
    """[O 3.14.1]."""
    world = World(walker(3))
    settled: list[int] = []

    def walk(ctx: IntentContext) -> None:
        run = world.stores.snapshots.load(ctx.run_id)
        assert run is not None
        settled.append(run.iteration)

    world = World(walker(3, intents={"walk": walk}))
    dispatched(world)

    assert settled == [-1, 0, 1]


def test_an_iteration_is_saved_with_its_events_and_counts_as_progress() -> None:
    """[O 2.5.8, O 15.4 G43]."""
    world = World(walker(1, initial_agent="walk"))
    wake = world.ready(Stage.DISPATCH)
    world.inside(wake)
    (wake,) = world.drain()
    assert world.turn(wake).attempts == 1
    before = len(world.events(wake))

    dispatch.run(world.inside(wake), world.env)

    events = [(event.type, event.payload) for event in world.events(wake)[before:]]
    turn = {"sessionId": "s1", "turnIndex": 0}
    assert events == [
        ("orchestrator.turn.routed", {**turn, "source": "intent.next", "raw": "walk"}),
        ("supervisor.iteration.completed", {**turn, "iteration": 0}),
        ("orchestrator.turn.routed", {**turn, "source": "route", "raw": END}),
        ("supervisor.iteration.completed", {**turn, "iteration": 1}),
    ]
    assert world.turn(wake).attempts == 0


class FullDisk(MemorySnapshots):
    """Refuses to save the iteration of that number; -1 is what comes before the first."""

    refuses: int

    def save(self, run: SupervisorRun, settled: IterationSnapshot | None, unit: Unit) -> None:
        if run.iteration == self.refuses:
            raise StoreUnavailableError("no space left")
        super().save(run, settled, unit)


@pytest.mark.parametrize("refused", [-1, 0, 1, 3])
def test_what_is_not_saved_is_not_acted_on(refused: int) -> None:
    """[O 3.14.3, O 15.1 G12] Nor does it fail the turn, which the first save of all did: another try may do."""
    calls: list[int] = []
    world = World(walker(3, intents={"walk": paid(lambda ctx: None, calls)}))
    snapshots = FullDisk(world.stores.tables)
    snapshots.refuses = refused
    world.using(snapshots=snapshots)
    wake = world.ready(Stage.DISPATCH)

    with pytest.raises(StoreUnavailableError):
        dispatch.run(world.inside(wake), world.env)

    assert calls == [0, 1, 2][: refused + 1]
    world.using(snapshots=world.stores.snapshots)
    (wake,) = world.drain()
    assert world.play(wake) == [Stage.DISPATCH, Stage.PERSIST, Stage.COMPACT]
    assert calls == sorted([0, 1, 2, *([refused] if refused in range(3) else [])])
    assert world.result(wake).ok


# -- once more, after a crash


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_a_settled_iteration_is_not_called_again(cut: int) -> None:
    """[O 3.15.2, O 15.5 I7] The one that was cut is."""
    calls: list[int] = []
    dies = [cut]

    def walk(ctx: IntentContext) -> dict[str, Any]:
        if ctx.iteration in dies:
            dies.remove(ctx.iteration)
            raise Crash
        return {"path": [*ctx.state["path"], ctx.iteration]}

    world = World(walker(3, intents={"walk": paid(walk, calls)}))
    wake = world.ready(Stage.DISPATCH)
    with pytest.raises(Crash):
        dispatch.run(world.inside(wake), world.env)
    assert walks(world, wake) == list(range(cut))

    (wake,) = world.drain()
    turn = dispatch.run(world.inside(wake), world.env)

    assert outcome_of(turn).data == {"path": [0, 1, 2]}
    assert sorted(calls) == sorted([0, 1, 2, cut])


def test_a_run_that_is_over_calls_nothing_again() -> None:
    """[O 15.1 G10, O 16.5 T11, T34] Whose hand-over was lost, but whose snapshot says that it is over.

    Its context provider was called again, too, and could fail a turn that had nothing left to do.
    """
    calls: list[int] = []
    opened: list[int] = []

    def connect(asked: ProviderContext) -> dict[str, Any]:
        opened.append(1)
        if len(opened) > 1:
            raise ConnectionError("the database is down now")
        return {}

    intents = {"walk": paid(lambda ctx: {"path": [ctx.iteration]}, calls)}
    world = World(walker(1, intents=intents, providers={"provider": connect}))
    wake = world.ready(Stage.DISPATCH, context=a_provider())
    first = outcome_of(dispatch.run(world.inside(wake), world.env))

    (wake,) = world.drain()
    again = outcome_of(dispatch.run(world.inside(wake), world.env))

    assert (calls, opened) == ([0], [1])
    assert again.data == first.data == {"path": [0]}
    assert again.status is TurnStatus.AWAITING_INPUT


def test_a_resumed_run_sees_the_same_history_and_context() -> None:
    """[O 4.3.1, O 16.5 T12]."""
    seen: list[tuple[int, Any]] = []
    dies = [True]

    def walk(ctx: IntentContext) -> None:
        seen.append((len(ctx.history), dict(ctx.context)))
        if ctx.iteration == 1 and dies:
            dies.clear()
            raise Crash

    world = World(walker(2, intents={"walk": walk}))
    wake = world.ready(Stage.DISPATCH, history=HISTORY5, context={"locale": "de"})
    with pytest.raises(Crash):
        dispatch.run(world.inside(wake), world.env)
    (wake,) = world.drain()
    dispatch.run(world.inside(wake), world.env)

    assert seen == [(5, {"locale": "de"})] * 3


def test_a_resumed_run_reports_the_usage_of_both_parts() -> None:
    """[O 16.5 T12]."""

    class Model:
        name = "model"
        dies = True

        def execute(self, input: str, **_: Any) -> AgentResult:
            if self.dies:
                self.dies = False
                raise Crash
            return AgentResult(text="x", usage=Usage(input=5, total=5))

    class Cheap:
        name = "cheap"

        def execute(self, input: str, **_: Any) -> AgentResult:
            return AgentResult(text="x", usage=Usage(input=2, total=2))

    world = World(
        walker(
            2,
            intents={"cheap": Cheap(), "model": Model()},
            route=lambda ctx: ["cheap", "model", END][ctx.iteration],
        )
    )
    wake = world.ready(Stage.DISPATCH)
    with pytest.raises(Crash):
        dispatch.run(world.inside(wake), world.env)
    (wake,) = world.drain()
    turn = dispatch.run(world.inside(wake), world.env)

    assert outcome_of(turn).report["usage"] == {"input": 7, "output": 0, "total": 7}
    assert outcome_of(turn).report["attempts"] == 1


# -- stopped from outside


@pytest.mark.parametrize(
    ("reason", "status", "code", "by"),
    [
        (CancelRequested, TurnStatus.CANCELLED, "ORCHESTRATOR_CANCELLED", "cancelled"),
        (DeadlinePassed, TurnStatus.FAILED, "DEADLINE_EXCEEDED", "error"),
    ],
)
def test_a_stopped_turn_reports_what_it_had_settled(
    reason: type[BaseException], status: TurnStatus, code: str, by: str
) -> None:
    """[O 3.9.4, O 16.3 61, DESIGN 5] Stopped during iteration 2; the session keeps its state."""

    def walk(ctx: IntentContext) -> None:
        if ctx.iteration == 2:
            raise reason

    turn = dispatched(World(walker(3, intents={"walk": walk})))

    outcome = outcome_of(turn)
    assert (outcome.status, outcome.state, outcome.data) == (status, None, None)
    assert error_of(turn)["code"] == code
    assert outcome.report["iterations"] == 2
    assert outcome.report["status"] == status
    assert outcome.report["terminated_by"] == by


def test_a_cancel_is_the_supervisors_too() -> None:
    """[O 0.3 X16, O 11.9, O 16.1 25]."""

    def walk(ctx: IntentContext) -> None:
        raise CancelRequested

    error = error_of(dispatched(World(walker(3, intents={"walk": walk}))))

    assert (error["category"], error["cause"]["code"]) == ("cancelled", "SUPERVISOR_CANCELLED")


@pytest.mark.parametrize("reason", [LeaseLost, HandBackAsked, Crash])
def test_other_stops_decide_nothing(reason: type[BaseException]) -> None:
    def walk(ctx: IntentContext) -> None:
        raise reason

    with pytest.raises(reason):
        dispatched(World(walker(3, intents={"walk": walk})))


def test_a_process_that_goes_away_hands_back_between_iterations() -> None:
    """[DESIGN 6, SIGTERM]."""
    calls: list[int] = []

    def walk(ctx: IntentContext) -> None:
        world.watch.stops(HandBackAsked)

    world = World(walker(3, intents={"walk": paid(walk, calls)}))
    wake = world.ready(Stage.DISPATCH)

    with pytest.raises(HandBackAsked):
        dispatch.run(world.inside(wake), world.env)

    run = world.snapshot(wake)
    assert run is not None
    assert (calls, run.iteration) == ([0], 0)


# -- drift


def cut_in_the_middle(**definition: Any) -> tuple[World, Wake]:
    """A run that was cut in its iteration 1, and the wake after the takeover."""

    def walk(ctx: IntentContext) -> dict[str, Any]:
        if ctx.iteration == 1:
            raise Crash
        return {"path": [*ctx.state["path"], ctx.iteration]}

    world = World(walker(2, intents={"walk": walk}))
    wake = world.ready(Stage.DISPATCH, **definition)
    with pytest.raises(Crash):
        dispatch.run(world.inside(wake), world.env)
    (wake,) = world.drain()
    return world, wake


CHANGED = {"max_iterations": 7}


def test_a_run_of_another_definition_is_set_aside() -> None:
    """[O 3.15.1, DESIGN 5] It drifted under way, so a person decides."""
    before, wake = cut_in_the_middle()
    world = before.serving(walker(2, **CHANGED))

    turn = dispatch.run(world.inside(wake), world.env)

    assert outcome_of(turn).status is TurnStatus.QUARANTINED
    error = error_of(turn)
    assert error["code"] == "SUPERVISOR_DRIFT"
    assert error["context"] == {
        "run_id": world.turn(wake).run_id,
        "saved_signature": before.signature,
        "current_signature": world.signature,
    }


def test_a_run_of_another_definition_goes_on_where_it_was_forced() -> None:
    """[O 0.3 X15, O 16.5 T13]."""
    before, wake = cut_in_the_middle(force=True)
    world = before.serving(walker(2, **CHANGED))

    turn = dispatch.run(world.inside(wake), world.env)

    assert outcome_of(turn).data == {"path": [0, 1]}


def test_a_run_of_another_definition_goes_on_where_that_is_accepted() -> None:
    before, wake = cut_in_the_middle()
    world = before.serving(walker(2, on_drift="accept", **CHANGED))

    assert outcome_of(dispatch.run(world.inside(wake), world.env)).data == {"path": [0, 1]}


def test_a_run_that_goes_on_with_an_intent_that_is_gone_fails() -> None:
    """It crashed every worker that it came to."""

    def first(ctx: IntentContext) -> None: ...

    def second(ctx: IntentContext) -> None:
        raise Crash

    before = World(
        walker(
            2,
            intents={"first": Intent(run=first, next=lambda ctx: "second"), "second": second},
            route=lambda ctx: "first",
        )
    )
    wake = before.ready(Stage.DISPATCH, force=True)
    with pytest.raises(Crash):
        dispatch.run(before.inside(wake), before.env)
    (wake,) = before.drain()
    world = before.serving(walker(2, intents={"first": first}, route=lambda ctx: END))

    turn = dispatch.run(world.inside(wake), world.env)

    assert error_of(turn)["code"] == "SUPERVISOR_INVALID_ROUTE"
    assert outcome_of(turn).report["iterations"] == 1


def test_a_migration_gives_the_state_that_the_present_definition_wants() -> None:
    """[DESIGN 5]."""
    asked: list[DriftContext] = []

    def migrate(drift: DriftContext) -> dict[str, Any]:
        asked.append(drift)
        return {"count": drift.state["count"] * 100}

    before = World(counter())
    before.execute()
    world = before.serving(counter(iterate=True, on_drift=migrate))

    turn = dispatched(world)

    assert outcome_of(turn).data["count"] == 101
    (drift,) = asked
    assert (drift.session, drift.saved_signature) == (world.session(), before.signature)


def test_a_session_that_did_not_drift_is_not_migrated() -> None:
    world = World(counter(on_drift=lambda drift: {"count": 1 / 0}))
    world.execute()

    assert outcome_of(dispatched(world)).data["count"] == 2


@pytest.mark.parametrize(
    "migrate",
    [lambda drift: 1 / 0, lambda drift: None, lambda drift: {"x": {1}}, lambda drift: [1]],
)
def test_a_migration_that_fails_fails_the_turn(migrate: Any) -> None:
    before = World(counter())
    before.execute()
    world = before.serving(counter(iterate=True, on_drift=migrate))

    turn = dispatched(world)

    assert outcome_of(turn).status is TurnStatus.FAILED
    assert error_of(turn)["code"] == "SUPERVISOR_DRIFT"


# -- the context


def test_a_context_provider_gives_live_handles() -> None:
    """[DESIGN 8, O 0.4] It runs where the intents do; nothing of it is stored."""
    handle = object()
    seen: list[Any] = []

    def connect(asked: ProviderContext) -> dict[str, Any]:
        return {"db": handle, **asked.arguments}

    world = World(
        counter(
            intents={"bump": lambda ctx: seen.append(dict(ctx.context))},
            providers={"provider": connect},
        )
    )

    turn = dispatched(world, context=a_provider(shard=1))

    assert seen == [{"db": handle, "shard": 1}]
    assert outcome_of(turn).status is TurnStatus.AWAITING_INPUT


@pytest.mark.parametrize("value", [None, [], "text", 7])
def test_a_context_provider_returns_a_dict(value: Any) -> None:
    world = World(counter(providers={"provider": lambda asked: value}))

    turn = dispatched(world, context=a_provider())

    assert error_of(turn)["code"] == "ORCHESTRATOR_FAILED"
    assert "the context provider 'provider' returned a" in error_of(turn)["message"]


def test_a_context_provider_that_fails_fails_the_turn_before_any_call() -> None:
    calls: list[int] = []
    world = World(
        counter(intents={"bump": paid(bump, calls)}, providers={"provider": lambda asked: 1 / 0})
    )

    turn = dispatched(world, context=a_provider())

    assert (outcome_of(turn).status, calls) == (TurnStatus.FAILED, [])


# -- what becomes of the turn


def test_a_failed_branch_is_no_failed_turn_where_the_run_goes_on() -> None:
    """[O 2.6.1]."""
    turn = dispatched(World(walker(1, intents={"walk": lambda ctx: 1 / 0})))

    outcome = outcome_of(turn)
    assert outcome.status is TurnStatus.AWAITING_INPUT
    assert outcome.report["children"][0]["children"][0]["status"] == "failed"


def test_one_dispatch_without_end_is_a_success() -> None:
    """[O 0.3 X18, O 16.5 T1]."""
    outcome = outcome_of(dispatched(World(counter(intents={"bump": bump}))))

    assert (outcome.status, outcome.last_route) == (TurnStatus.AWAITING_INPUT, "bump")


def test_a_duration_is_work_and_not_waiting() -> None:
    def walk(ctx: IntentContext) -> None:
        world.clock.moves(2 * SECOND)

    world = World(walker(2, intents={"walk": walk}))

    assert outcome_of(dispatched(world)).report["duration"] == 4.0


def test_an_error_with_binary_data_in_its_message_settles_like_any_other() -> None:
    """It was refused by the store, so that the turn killed one worker after the other."""

    def reads(ctx: IntentContext) -> None:
        raise ValueError("cannot parse \x00\ud800")

    outcome = outcome_of(dispatched(World(counter(intents={"bump": reads}))))

    assert outcome.status is TurnStatus.FAILED
