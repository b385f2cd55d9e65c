"""How the author's callables are called: with what, and what becomes of their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pytest

from tests.orchestrator_core.builders import (
    HISTORY5,
    SECOND,
    Crash,
    World,
    bump,
    counter,
    run_of,
)
from turnchain.orchestrator_core.callbacks import (
    END,
    AgentResult,
    EvaluateContext,
    IntentContext,
    RouteContext,
)
from turnchain.orchestrator_core.contracts import (
    BranchRecord,
    Carry,
    Decision,
    IterationSnapshot,
    OpenIteration,
    Stage,
    SupervisorRun,
    Usage,
    Verdict,
)
from turnchain.orchestrator_core.definition import HistoryWindow, Intent
from turnchain.orchestrator_core.errors import (
    CancelRequested,
    OrchestratorFailedError,
    SupervisorFailedError,
    SupervisorRoutingError,
)
from turnchain.orchestrator_core.interpreter import Interpreter
from turnchain.orchestrator_core.supervisor import (
    Action,
    CallEvaluate,
    CallIntent,
    CallNext,
    CallRoute,
    Evaluated,
    Finish,
    IntentReturned,
    NextGiven,
    Raised,
    Routed,
)

A = Decision(source="route", next="a")
BRANCH = BranchRecord(intent="a", output={"x": 1}, usage=Usage(input=1, total=1))


class Notes:
    """The contexts that callables were given."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def taking(self, answer: Any = None) -> Any:
        """A callable that notes its context."""

        def call(context: Any) -> Any:
            self.seen.append(context)
            return answer

        return call


class Stand:
    """An interpreter of one definition, in a turn with five messages."""

    def __init__(self, **definition: Any) -> None:
        given: dict[str, Any] = {
            "intents": {"a": lambda ctx: None},
            "history_window": HistoryWindow(router=1, agents=2),
        }
        self.world = World(counter(**{**given, **definition}))
        self.turn = self.world.at(Stage.DISPATCH, history=HISTORY5)
        self.context: Mapping[str, Any] = MappingProxyType({"db": object()})

    def perform(self, action: Action, run: SupervisorRun | None = None) -> Any:
        interpreter = Interpreter(self.turn, self.world.env, self.context)
        return interpreter.perform(action, run or run_of())


def dispatch(intent: Any, run: SupervisorRun | None = None) -> IntentReturned:
    """What this intent comes to."""
    return Stand(intents={"a": intent}).perform(CallIntent("a"), run)


def opened(state: dict[str, Any] | None = None, **fields: Any) -> SupervisorRun:
    """A run whose iteration 1 has its branch, and the state after the merge."""
    settled = IterationSnapshot(iteration=0, decision=A, state={"x": 0})
    open_ = OpenIteration(decision=A, branch=BRANCH, state=state or {"x": 1})
    return run_of(iterations=(settled,), open=open_, **fields)


# -- what they see


def test_each_callable_sees_the_turn_and_its_slice_of_the_history() -> None:
    """[O 3.12, O 6.2.6]."""
    notes = Notes()
    stand = Stand(
        route=notes.taking("a"),
        evaluate=notes.taking(),
        intents={"a": Intent(run=notes.taking(), next=notes.taking())},
    )
    run = opened(input={"say": "hi"}, turn_index=3, carry=Carry(feedback="again"))

    for action in (CallRoute(), CallIntent("a"), CallEvaluate(), CallNext("a")):
        stand.perform(action, run)

    kinds = [RouteContext, IntentContext, EvaluateContext, IntentContext]
    assert [type(each) for each in notes.seen] == kinds
    for context in notes.seen:
        assert (context.session, context.session_id) == (run.session, "s")
        assert (context.turn_index, context.run_id, context.iteration) == (3, "run", 1)
        assert (context.input, context.state) == ({"say": "hi"}, {"x": 1})
        assert context.iterations == run.iterations
        assert context.context is stand.context
    assert [len(context.history) for context in notes.seen] == [1, 2, 2, 2]
    route, intent, evaluate, following = notes.seen
    assert route.history[0].content == "message 4"
    assert route.feedback == "again"
    assert (intent.intent, following.intent, intent.attempt) == ("a", "a", 0)
    assert evaluate.result == {"a": BRANCH}


def test_what_they_see_is_a_copy() -> None:
    """[O 15.4 G38, O 16.5 T35] Changing it reaches neither the run nor the next callable."""

    def spoils(context: Any) -> None:
        context.state["x"] = "spoiled"
        context.input["say"] = "spoiled"
        context.history[0].content.append("spoiled")
        context.iterations[0].state["x"] = "spoiled"
        if isinstance(context, EvaluateContext):
            context.result["a"].output["x"] = "spoiled"

    stand = Stand(route=spoils, evaluate=spoils, intents={"a": Intent(run=spoils, next=spoils)})
    history = [{"role": "user", "content": ["text"]}]
    stand.turn = stand.world.at(Stage.DISPATCH, session="s2", history=history)
    run, twin = (opened(input={"say": "hi"}) for _ in range(2))

    for action in (CallRoute(), CallIntent("a"), CallEvaluate(), CallNext("a")):
        result = stand.perform(action, run)
        assert getattr(result, "error", None) is None or isinstance(action, CallRoute), result

    assert run == twin
    windows = stand.turn.work.windows
    assert windows is not None
    assert windows.agents[0].content == ["text"]


def test_the_context_holds_the_very_handles_and_cannot_be_rebound() -> None:
    """[O 3.12, O 16.3 65]."""

    def rebinds(ctx: IntentContext) -> None:
        assert ctx.context["db"] is stand.context["db"]
        ctx.context["db"] = None  # pyright: ignore[reportIndexIssue]

    stand = Stand(intents={"a": rebinds})

    error = stand.perform(CallIntent("a")).error

    assert error is not None
    assert error["cause"]["type"] == "TypeError"


# -- intents


@pytest.mark.parametrize(
    ("returned", "output", "merges"),
    [
        ({"x": (1, 2)}, {"x": [1, 2]}, {"x": [1, 2]}),
        ({}, {}, {}),
        (None, None, None),
        ("text", "text", None),
        ([1], [1], None),
        (0, 0, None),
    ],
)
def test_an_object_merges_and_anything_else_is_only_recorded(
    returned: Any, output: Any, merges: Any
) -> None:
    """[O 3.7.10, O 3.8.2, O 16.3 63]."""
    result = dispatch(lambda ctx: returned)

    assert (result.output, result.merges, result.error) == (output, merges, None)


def test_an_intent_may_be_async() -> None:
    async def intent(ctx: IntentContext) -> dict[str, Any]:
        await asyncio.sleep(0)
        return {"iteration": ctx.iteration}

    assert dispatch(intent).merges == {"iteration": 0}


def test_what_an_intent_raises_is_its_branchs_error() -> None:
    """[O 3.7.4, O 16.3 63]."""

    def pay(ctx: IntentContext) -> None:
        raise ValueError("billing API exploded")

    result = dispatch(pay)

    assert (result.output, result.merges) == (None, None)
    assert result.error is not None
    assert result.error["code"] == "SUPERVISOR_FAILED"
    assert "intent 'a' raised ValueError" in result.error["message"]
    assert result.error["cause"]["message"] == "billing API exploded"


def test_a_typed_error_passes_unchanged() -> None:
    """[O 3.7.4, O 11.5]."""

    def pay(ctx: IntentContext) -> None:
        raise OrchestratorFailedError("no such account", {"account": 7})

    error = dispatch(pay).error

    assert error is not None
    assert (error["code"], error["message"]) == ("ORCHESTRATOR_FAILED", "no such account")
    assert error["context"] == {"account": 7}


@pytest.mark.parametrize("returned", [{"x": {1}}, {"x": float("nan")}, {1: "x"}, object(), b"x"])
def test_an_output_that_is_not_json_is_the_branchs_error(returned: Any) -> None:
    """[O 2.8.4]."""
    result = dispatch(lambda ctx: returned)

    assert result.error is not None
    assert result.error["code"] == "SCHEMA_VALIDATION_FAILED"
    assert "output of intent 'a'" in result.error["message"]
    assert result.merges is None


@pytest.mark.parametrize("reason", [Crash, KeyboardInterrupt])
def test_a_crash_is_no_error_of_the_branch(reason: type[BaseException]) -> None:
    def dies(ctx: IntentContext) -> None:
        raise reason

    with pytest.raises(reason):
        dispatch(dies)


def test_a_stop_is_no_error_of_the_branch() -> None:
    notes = Notes()
    stand = Stand(intents={"a": notes.taking()})
    stand.world.watch.stops(CancelRequested)

    with pytest.raises(CancelRequested):
        stand.perform(CallIntent("a"))

    assert notes.seen == []


def test_a_duration_is_what_the_clock_says() -> None:
    stand = Stand(intents={"a": lambda ctx: stand.world.clock.moves(3 * SECOND)})

    assert stand.perform(CallIntent("a")).duration == 3.0


def test_the_count_of_takeovers_is_told_to_the_iteration_that_was_cut() -> None:
    """[DESIGN 6, Attempts] Progress starts the count again."""
    notes = Notes()
    world = World(counter(intents={"a": notes.taking()}))
    wake = world.ready(Stage.DISPATCH)
    world.inside(wake)
    (wake,) = world.drain()
    interpreter = Interpreter(world.inside(wake), world.env, {})

    interpreter.perform(CallIntent("a"), run_of())
    interpreter.perform(CallIntent("a"), opened().evolve(open=None))

    assert [context.attempt for context in notes.seen] == [1, 0]


def test_steps_of_an_intent_are_keyed_by_run_iteration_and_intent() -> None:
    """[O 15.2 G8]."""
    stand = Stand(intents={"a": lambda ctx: ctx.step("charge", lambda step: step.effect_key)})

    assert stand.perform(CallIntent("a")).output == "run:0:a:charge"
    assert stand.perform(CallIntent("a"), opened()).output == "run:1:a:charge"


# -- agents


@dataclass
class Model:
    """An agent that answers what it was told to, and notes what it was asked."""

    answer: Any
    name: str = "model"
    asked: list[Any] = field(default_factory=list[Any])

    def execute(self, input: str, *, history: Any, context: Any) -> Any:
        self.asked.append((input, len(history), dict(context)))
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


def test_an_agents_answer_is_recorded_and_not_merged() -> None:
    """[O 3.7.10, O 16.1 8]."""
    usage = Usage(input=3, output=4, total=7)
    model = Model(AgentResult(text="scripted reply", usage=usage))

    result = dispatch(model, run_of(input="hello"))

    assert (result.output, result.merges, result.usage) == ("scripted reply", None, usage)
    assert [asked[:2] for asked in model.asked] == [("hello", 2)]


@pytest.mark.parametrize(
    ("answer", "output"),
    [
        (AgentResult(text="t", data={"d": 1}), {"d": 1}),
        (AgentResult(text="t", data=0), 0),
        (AgentResult(text=""), ""),
        (AgentResult(), None),
    ],
)
def test_data_wins_over_text(answer: AgentResult, output: Any) -> None:
    assert dispatch(Model(answer)).output == output


def test_an_agent_is_given_objects_as_compact_json() -> None:
    """[O 3.7.1]."""
    model = Model(AgentResult())

    dispatch(model, run_of(input={"say": "ä", "n": [1, 2]}))

    assert model.asked[0][0] == '{"say":"ä","n":[1,2]}'


def test_an_agents_own_error_is_the_branchs_and_its_usage_counts() -> None:
    usage = Usage(input=5, total=5)
    answer = AgentResult(text="half", usage=usage, error=OrchestratorFailedError("refused"))

    result = dispatch(Model(answer))

    assert result.error is not None
    assert result.error["message"] == "refused"
    assert (result.usage, result.merges) == (usage, None)


@pytest.mark.parametrize(
    "answer",
    [
        "text",
        None,
        {"text": "x"},
        AgentResult(data={1, 2}),
        AgentResult(text="x", usage=None),  # pyright: ignore[reportArgumentType]
        AgentResult(text="x", usage={"input": "many"}),  # pyright: ignore[reportArgumentType]
        AgentResult(text="x", error="refused"),  # pyright: ignore[reportArgumentType]
        ValueError("no model"),
    ],
)
def test_an_agent_that_answers_nonsense_fails_its_branch_alone(answer: Any) -> None:
    """A usage that is none came through to the machine, whose refusal crashed the stage, and so three workers."""
    result = dispatch(Model(answer))

    assert result.error is not None
    assert isinstance(result.usage, Usage)


def test_usage_may_be_a_mapping() -> None:
    answer = AgentResult(text="x", usage={"input": 1, "total": 1})  # pyright: ignore[reportArgumentType]

    assert dispatch(Model(answer)).usage == Usage(input=1, total=1)


def test_an_agent_may_be_async() -> None:
    class AsyncModel(Model):
        async def execute(self, input: str, *, history: Any, context: Any) -> Any:
            return super().execute(input, history=history, context=context)

    assert dispatch(AsyncModel(AgentResult(text="later"))).output == "later"


def test_an_intent_that_the_definition_lost_fails_the_run() -> None:
    """A run that was cut before it, and forced on under a definition without it, crashed every worker it came to."""
    result = Stand().perform(CallIntent("gone"))

    assert isinstance(result, Raised)
    assert result.error["code"] == SupervisorRoutingError.code
    assert result.error["context"]["available_keys"] == ["a"]


# -- route, evaluate, next


def test_answers_come_back_as_they_are() -> None:
    verdict = Verdict(feedback="more")
    stand = Stand(
        route=lambda ctx: ["a", 42],
        evaluate=lambda ctx: verdict,
        intents={"a": Intent(run=bump, next=lambda ctx: 7)},  # pyright: ignore[reportArgumentType]
    )

    assert stand.perform(CallRoute()) == Routed(["a", 42])
    assert stand.perform(CallEvaluate(), opened()) == Evaluated(verdict)
    assert stand.perform(CallNext("a"), opened()) == NextGiven(7)


def test_route_and_evaluate_may_be_async() -> None:
    """[O 3.5.1]."""

    async def route(ctx: RouteContext) -> str:
        return END

    async def evaluate(ctx: EvaluateContext) -> None:
        return None

    stand = Stand(route=route, evaluate=evaluate)

    assert stand.perform(CallRoute()) == Routed(END)
    assert stand.perform(CallEvaluate(), opened()) == Evaluated(None)


@pytest.mark.parametrize(
    ("action", "what"),
    [(CallRoute(), "route"), (CallEvaluate(), "evaluate"), (CallNext("a"), "next of 'a'")],
)
def test_what_a_callback_raises_is_a_failure_of_the_run(action: Action, what: str) -> None:
    """[O 3.5.2, O 3.10.4, O 3.11.3]."""

    def explodes(ctx: Any) -> Any:
        raise ValueError("exploded")

    stand = Stand(route=explodes, evaluate=explodes, intents={"a": Intent(run=bump, next=explodes)})

    result = stand.perform(action, opened())

    assert isinstance(result, Raised)
    assert result.error["code"] == "SUPERVISOR_FAILED"
    assert result.error["message"] == f"{what} raised ValueError: exploded"
    assert result.error["cause"]["type"] == "ValueError"


@pytest.mark.parametrize("action", [CallRoute(), CallEvaluate(), CallNext("a")])
def test_a_callbacks_typed_error_passes_unchanged(action: Action) -> None:
    """[O 3.5.2]."""

    def refuses(ctx: Any) -> Any:
        raise OrchestratorFailedError("no")

    stand = Stand(route=refuses, evaluate=refuses, intents={"a": Intent(run=bump, next=refuses)})

    result = stand.perform(action, opened())

    assert isinstance(result, Raised)
    assert result.error["code"] == "ORCHESTRATOR_FAILED"


@pytest.mark.parametrize("verdict", [True, "again", {"satisfied": True}])
def test_a_verdict_is_a_verdict_or_nothing(verdict: Any) -> None:
    stand = Stand(evaluate=lambda ctx: verdict)

    result = stand.perform(CallEvaluate(), opened())

    assert isinstance(result, Raised)
    assert "return a Verdict" in result.error["message"]


@pytest.mark.parametrize("action", [CallRoute(), CallEvaluate()])
def test_a_stop_passes_through_the_callbacks(action: Action) -> None:
    stand = Stand(evaluate=lambda ctx: None)
    stand.world.watch.stops(CancelRequested)

    with pytest.raises(CancelRequested):
        stand.perform(action, opened())


def test_a_finished_run_asks_for_nothing() -> None:
    with pytest.raises(SupervisorFailedError):
        Stand().perform(Finish())
