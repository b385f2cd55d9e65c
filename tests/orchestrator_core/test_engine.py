"""The seven stages in place: the oracle's cases, what is refused, and drift."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.orchestrator_core.builders import (
    HISTORY5,
    PatientLedger,
    World,
    a_provider,
    bump,
    code_of,
    counter,
    finished,
    walker,
)
from turnchain.orchestrator_core.callbacks import (
    END,
    AgentResult,
    IntentContext,
    ProviderContext,
    RouteContext,
)
from turnchain.orchestrator_core.contracts import (
    Claim,
    Refusal,
    Stage,
    TurnStatus,
    Verdict,
)
from turnchain.orchestrator_core.definition import HistoryWindow, Intent
from turnchain.orchestrator_core.engine import ENGINE_LEASE
from turnchain.orchestrator_core.errors import (
    InvalidInputError,
    SessionOwnerError,
    TurnConflictError,
    UnknownOrchestratorError,
)
from turnchain.orchestrator_core.requests import MISSING
from turnchain.stores.memory import MemoryUnit

# -- the oracle's cases [O 16.1]


def test_a_turn_counts() -> None:
    """[O 16.1 1, 2]."""
    world = World(counter())

    result = world.execute("hello", history=HISTORY5)

    assert (result.error, result.session_id, result.turn_index) == (None, "s1", 0)
    assert (result.status, result.ok) == (TurnStatus.AWAITING_INPUT, True)
    assert result.data == {"count": 1, "lastInput": "hello"}
    head = world.head()
    assert head is not None
    assert (head.turn_index, head.signature) == (0, world.signature)
    assert head.state == {"count": 1, "lastInput": "hello"}


def test_a_patch_of_the_state_comes_before_the_turn() -> None:
    """[O 16.1 3]."""
    world = World(counter())

    assert world.execute("one", state={"count": 41}).turn_index == 0
    assert world.state()["count"] == 42


def test_turns_follow_each_other() -> None:
    """[O 16.1 4, 5]."""
    world = World(counter())

    indices = [world.execute(text).turn_index for text in ("one", "two", "three")]

    assert indices == [0, 1, 2]
    assert world.state() == {"count": 3, "lastInput": "three"}


def test_sessions_do_not_touch_each_other() -> None:
    """[O 16.1 6]."""
    world = World(counter())

    for session in ("alice", "bob", "alice"):
        world.execute(session=session)

    assert (world.state("alice")["count"], world.state("bob")["count"]) == (2, 1)


def test_orchestrators_do_not_touch_each_other() -> None:
    """[O 16.5 T14] The same session id, the same stores."""
    world = World(counter())
    other = world.serving(counter(name="other", iterate=True))

    world.execute()
    other.execute()
    world.execute()

    assert (world.state()["count"], other.state()["count"]) == (2, 1)


def test_an_agent_answers() -> None:
    """[O 16.1 8]."""
    asked: list[str] = []

    class Model:
        name = "model"

        def execute(self, input: str, **_: Any) -> AgentResult:
            asked.append(input)
            return AgentResult(text="scripted reply")

    responder = Intent(agent=Model(), next=lambda ctx: END)
    world = World(counter(intents={"responder": responder}, route=lambda ctx: "responder"))

    result = world.execute("hello")

    head = world.head()
    assert head is not None
    assert head.turn_snapshot["result"]["responder"]["output"] == "scripted reply"
    assert (asked, result.data) == (["hello"], {"count": 0})


def test_several_iterations_are_one_turn() -> None:
    """[O 16.1 9]."""

    def second(ctx: IntentContext) -> dict[str, Any]:
        return {"count": ctx.state["count"] + 1, "via": "second"}

    world = World(
        counter(
            iterate=True,
            intents={"first": bump, "second": Intent(run=second, next=lambda ctx: END)},
            route=lambda ctx: "first" if ctx.iteration == 0 else "second",
        )
    )

    result = world.execute()

    assert result.report is not None
    assert result.report.iterations == 2
    assert world.state() == {"count": 2, "lastInput": "hello", "via": "second"}


def test_a_single_dispatch_leaves_no_snapshot_behind() -> None:
    """[O 16.5 T29]."""
    world = World(counter())
    world.execute()
    world.execute(session="s2")

    assert world.stores.snapshots.list() == []


def test_an_intent_that_raises_fails_the_turn() -> None:
    """[O 16.1 19, O 16.5 T21] Whose error keeps its message on its way through the store."""

    def pay(ctx: IntentContext) -> None:
        raise ValueError("billing API exploded")

    world = World(counter(intents={"bump": pay}))

    result = world.execute()

    assert (code_of(result), result.data) == ("SUPERVISOR_FAILED", None)
    assert result.error is not None
    assert str(result.error.__cause__) == "billing API exploded"
    assert [name for name in world.event_names(result) if name.startswith("turn.")] == [
        "turn.starting",
        "turn.routed",
        "turn.failed",
    ]


def test_a_failed_turn_frees_its_index() -> None:
    """[O 2.6.2]."""
    world = World(counter(intents={"bump": lambda ctx: bump(ctx) if ctx.input == "ok" else 1 / 0}))

    failed, settled = world.execute("not ok"), world.execute("ok")

    assert (failed.turn_index, settled.turn_index) == (0, 0)
    assert world.state()["count"] == 1


def test_max_iterations_end_the_turn() -> None:
    """[O 2.6.4, O 16.3 52]."""
    result = World(walker(99, max_iterations=3)).execute()

    assert result.status is TurnStatus.MAX_ITERATIONS
    assert code_of(result) == "SUPERVISOR_MAX_ITERATIONS"
    assert result.error is not None
    assert result.error.context == {"max_iterations": 3}


def test_evaluate_ends_reassigns_and_gives_feedback() -> None:
    """[O 16.3 57] Feedback reaches the next route, never an intent's input."""
    seen: list[Any] = []

    def route(ctx: RouteContext) -> str:
        seen.append(ctx.feedback)
        return "draft"

    def draft(ctx: IntentContext) -> dict[str, Any]:
        seen.append(ctx.input)
        return {"draft": ctx.iteration}

    verdicts = [
        Verdict(feedback="longer"),
        Verdict(reassign_to="review"),
        Verdict(satisfied=True),
    ]
    world = World(
        walker(
            0,
            intents={"draft": draft, "review": lambda ctx: {"reviewed": True}},
            route=route,
            evaluate=lambda ctx: verdicts[ctx.iteration],
        )
    )

    result = finished(world.execute("write"))

    assert seen == [None, "write", "longer", "write"]
    assert result.data == {"path": [], "draft": 1, "reviewed": True}
    assert result.report is not None
    assert result.report.terminated_by == "evaluate"


def test_the_initial_agent_opens_the_session_and_no_later_turn() -> None:
    """[O 0.3 X9]."""
    world = World(
        walker(
            0,
            intents={"greet": lambda ctx: {"greeted": ctx.turn_index}, "walk": lambda ctx: None},
            initial_agent="greet",
        )
    )

    assert finished(world.execute()).data == {"path": [], "greeted": 0}
    assert finished(world.execute()).data == {"path": [], "greeted": 0}


def test_windows_reach_the_callables() -> None:
    """[O 16.1 11, O 16.5 T22]."""
    seen: list[int] = []

    def route(ctx: RouteContext) -> str:
        seen.append(len(ctx.history))
        return "bump"

    def intent(ctx: IntentContext) -> None:
        seen.append(len(ctx.history))

    world = World(
        counter(
            route=route,
            intents={"bump": intent},
            history_window=HistoryWindow(router=1, agents=2),
        )
    )
    world.execute(history=HISTORY5)

    assert seen == [1, 2]


def test_a_changed_state_inside_an_intent_does_not_persist() -> None:
    """[O 16.5 T35]."""

    def spoils(ctx: IntentContext) -> None:
        ctx.state["count"] = 99

    world = World(counter(intents={"bump": spoils}))

    assert finished(world.execute()).data == {"count": 0}


# -- arguments [O 1.2.15, O 16.5 T28]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"input": MISSING}, InvalidInputError),
        ({"session": ""}, InvalidInputError),
        ({"history": None}, InvalidInputError),
        ({"state": {"x": {1}}}, InvalidInputError),
    ],
)
def test_a_wrong_argument_writes_nothing(arguments: dict[str, Any], error: type[Exception]) -> None:
    world = World(counter())

    with pytest.raises(error):
        world.execute(**arguments)

    assert world.stores.tables.turns == {}


def test_an_unknown_orchestrator_writes_nothing() -> None:
    world = World(counter())

    with pytest.raises(UnknownOrchestratorError, match="counter"):
        world.engine.execute("conter", "hello", session_id="s1", history=[])
    with pytest.raises(UnknownOrchestratorError):
        world.engine.resume("conter", "s1")

    assert world.stores.tables.turns == {}


def test_another_owners_session_is_refused() -> None:
    world = World(counter())
    world.execute(tenant="acme")

    with pytest.raises(SessionOwnerError):
        world.execute(tenant="globex")
    with pytest.raises(SessionOwnerError):
        world.execute()

    assert world.state()["count"] == 1


@pytest.mark.parametrize("expected", [0, 2])
def test_another_index_than_expected_is_a_conflict(expected: int) -> None:
    """[O 15.4 G44]."""
    world = World(counter())
    world.execute(expected_turn_index=0)

    with pytest.raises(TurnConflictError):
        world.execute(expected_turn_index=expected)

    assert world.execute(expected_turn_index=1).turn_index == 1


# -- providers


def test_providers_run_where_the_turn_does() -> None:
    """[DESIGN 8] History from a store, and live handles for the intents."""
    handle = object()
    seen: list[Any] = []

    def chat(asked: ProviderContext) -> list[dict[str, Any]]:
        return HISTORY5[: asked.arguments["last"]]

    def connect(asked: ProviderContext) -> dict[str, Any]:
        return {"db": handle, "user": asked.user_id}

    def intent(ctx: IntentContext) -> None:
        seen.append((len(ctx.history), dict(ctx.context)))

    definition = counter(intents={"bump": intent}, providers={"chat": chat, "connect": connect})
    world = World(definition)

    finished(
        world.execute(
            history=a_provider("chat", last=3), context=a_provider("connect"), user_id="u"
        )
    )

    assert seen == [(3, {"db": handle, "user": "u"})]


# -- drift


def changed(**fields: Any) -> Any:
    return counter(intents={"bump": bump, "more": bump}, **fields)


def test_a_session_of_another_definition_is_refused() -> None:
    """[O 16.1 21, 23]."""
    before = World(counter())
    before.execute()
    world = before.serving(changed())

    result = world.execute()

    assert (result.status, code_of(result)) == (TurnStatus.FAILED, "ORCHESTRATOR_DRIFT")
    assert result.error is not None
    assert result.error.context == {
        "session_id": "s1",
        "saved_signature": before.signature,
        "current_signature": world.signature,
    }
    assert world.execute(session="new").ok


def test_force_goes_on_and_the_session_is_the_present_definitions_from_then_on() -> None:
    """[O 16.1 22]."""
    before = World(counter())
    before.execute()
    world = before.serving(changed())

    assert world.execute(force=True).data["count"] == 2
    head = world.head()
    assert head is not None
    assert head.signature == world.signature
    assert world.execute().data["count"] == 3
    assert code_of(before.execute()) == "ORCHESTRATOR_DRIFT"


@pytest.mark.parametrize(
    ("on_drift", "count"),
    [("accept", 2), (lambda drift: {"count": drift.state["count"] * 10}, 11)],
    ids=["accept", "migrate"],
)
def test_a_definition_may_take_over_former_sessions(on_drift: Any, count: int) -> None:
    before = World(counter())
    before.execute()
    world = before.serving(changed(on_drift=on_drift))

    assert finished(world.execute()).data["count"] == count


def test_a_thread_that_dies_takes_nothing_from_another_thread_of_its_engine() -> None:
    """[ADR 0004] Both have one process id; the dead one's stage is behind the other's claim."""
    world = World(counter(intents={"bump": lambda ctx: {"count": 1}}, iterate=False))
    others: list[Claim | Refusal] = []

    class Interrupting(PatientLedger):
        @contextmanager
        def unit(self, claim: Claim, *, durable: bool) -> Generator[MemoryUnit]:
            with super().unit(claim, durable=durable) as unit:
                yield unit
            row = self.tables.turns[claim.turn.turn_id]
            if claim.turn.stage is Stage.DISPATCH and row.stage is Stage.PERSIST and not others:
                process = claim.lease_owner.rpartition("/")[0]
                others.append(self.claim(row.wake, f"{process}/99", ENGINE_LEASE))
                raise KeyboardInterrupt

    world.keeping(Interrupting)
    with pytest.raises(KeyboardInterrupt):
        world.execute()

    (claim,) = others
    assert isinstance(claim, Claim)
    turn = world.turn(claim.turn.turn_id)
    assert (turn.status, turn.lease_owner) == (TurnStatus.RUNNING, claim.lease_owner)
