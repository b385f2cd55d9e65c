"""The journal of side effects: intent before, result after, and what is in between when somebody dies."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, Literal

import pytest

from tests.orchestrator_core.builders import Crash, World, counter
from turnchain.orchestrator_core.callbacks import Found, Reconcile, Step
from turnchain.orchestrator_core.contracts import JSON, Claim, Stage, StepRecord
from turnchain.orchestrator_core.errors import (
    CancelRequested,
    LeaseLost,
    OrchestratorConfigError,
    SchemaValidationError,
    StepInDoubtError,
    StoreLost,
    StoreUnavailableError,
)
from turnchain.orchestrator_core.steps import StepJournal
from turnchain.stores.memory import MemoryLedger

Way = Literal["step", "astep"]
BOTH = pytest.mark.parametrize("way", ["step", "astep"])


class Desk:
    """One intent's journal on a ledger that tells in which order it was written."""

    def __init__(self) -> None:
        self.world = World(counter())
        self.turn = self.world.at(Stage.DISPATCH)
        self.wrote: list[str] = []
        self.ledger = Recording(self.world.stores.tables)
        self.ledger.wrote = self.wrote

    def journal(self, intent: str = "pay", iteration: int = 0) -> StepJournal:
        """As the next attempt gets it."""
        return StepJournal(
            self.ledger,
            self.turn.claim,
            self.world.watch,
            run_id="run",
            iteration=iteration,
            intent=intent,
        )

    def effect(self, result: Any = "done") -> Callable[[Step], Any]:
        """A function that notes its call."""

        def act(step: Step) -> Any:
            self.wrote.append(f"effect {step.effect_key}")
            return result

        return act

    def crashes(self, step: Step) -> Any:
        """A function whose process dies in it."""
        self.wrote.append(f"crash {step.effect_key}")
        raise Crash

    def cut(self, name: str = "charge") -> None:
        """An attempt that dies between the step's intent and its result."""
        with pytest.raises(Crash):
            self.journal().step(name, self.crashes)
        self.wrote.clear()

    def loses_its_lease(self) -> None:
        self.world.clock.moves(self.world.env.policy.lease)
        assert self.world.ledger.take_over_expired(3)


class Recording(MemoryLedger):
    wrote: list[str]

    def begin_step(self, claim: Claim, run_id: str, effect_key: str, name: str) -> StepRecord:
        self.wrote.append(f"intent {effect_key}")
        return super().begin_step(claim, run_id, effect_key, name)

    def finish_step(self, claim: Claim, run_id: str, effect_key: str, result: JSON) -> None:
        self.wrote.append(f"result {effect_key}")
        super().finish_step(claim, run_id, effect_key, result)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def call(journal: StepJournal, way: Way, name: str, fn: Any, policy: Any = "retry") -> Any:
    """The step, and its async twin with an async function."""
    if way == "step":
        return journal.step(name, fn, policy=policy)

    async def afn(step: Step) -> Any:
        return fn(step)

    async def alook_up(step: Step) -> Any:
        return policy.look_up(step)

    given = Reconcile(alook_up) if isinstance(policy, Reconcile) else policy
    return asyncio.run(journal.astep(name, afn, policy=given))


# -- once


@BOTH
def test_the_intent_is_written_before_the_effect_and_the_result_after(desk: Desk, way: Way) -> None:
    """[DESIGN 6, Steps]."""
    result = call(desk.journal(), way, "charge", desk.effect({"id": 7}))

    assert result == {"id": 7}
    assert desk.wrote == [f"{what} run:0:pay:charge" for what in ("intent", "effect", "result")]


@BOTH
def test_a_finished_step_is_answered_without_a_call(desk: Desk, way: Way) -> None:
    call(desk.journal(), way, "charge", desk.effect("first"))
    desk.wrote.clear()

    again = call(desk.journal(), way, "charge", desk.effect("second"))

    assert again == "first"
    assert desk.wrote == ["intent run:0:pay:charge"]


@BOTH
def test_no_result_is_a_result(desk: Desk, way: Way) -> None:
    call(desk.journal(), way, "charge", desk.effect(None))

    assert call(desk.journal(), way, "charge", desk.effect("second")) is None


@BOTH
def test_the_caller_gets_what_a_later_attempt_would_get(desk: Desk, way: Way) -> None:
    first = call(desk.journal(), way, "charge", desk.effect({"pair": (1, 2)}))

    assert first == {"pair": [1, 2]}
    assert call(desk.journal(), way, "charge", desk.effect()) == first


def test_an_async_step_takes_a_sync_function_too(desk: Desk) -> None:
    assert asyncio.run(desk.journal().astep("charge", desk.effect("ok"))) == "ok"


def test_a_sync_step_refuses_an_async_function(desk: Desk) -> None:
    async def charge(step: Step) -> None: ...

    with pytest.raises(OrchestratorConfigError, match="astep"):
        desk.journal().step("charge", charge)

    desk.cut("other")
    with pytest.raises(OrchestratorConfigError, match="astep"):
        desk.journal().step("other", desk.effect(), policy=Reconcile(charge))  # pyright: ignore[reportArgumentType]


@BOTH
def test_what_the_function_raises_comes_out_and_leaves_doubt(desk: Desk, way: Way) -> None:
    """It may have taken effect before it raised."""

    def fail(step: Step) -> None:
        raise ValueError("gateway timeout")

    with pytest.raises(ValueError, match="gateway"):
        call(desk.journal(), way, "charge", fail)

    assert call(desk.journal(), way, "charge", lambda step: step.in_doubt) is True


@BOTH
@pytest.mark.parametrize("result", [{1, 2}, float("nan"), object()])
def test_a_result_that_is_not_json_is_refused_by_name(desk: Desk, way: Way, result: Any) -> None:
    with pytest.raises(SchemaValidationError, match="result of step 'charge'"):
        call(desk.journal(), way, "charge", desk.effect(result))

    assert "result run:0:pay:charge" not in desk.wrote


# -- in doubt


@BOTH
def test_a_step_in_doubt_is_run_again_under_the_same_key(desk: Desk, way: Way) -> None:
    seen: list[Step] = []
    desk.cut()

    call(desk.journal(), way, "charge", lambda step: seen.append(step) or "ok")

    assert seen == [Step(effect_key="run:0:pay:charge", in_doubt=True)]
    assert call(desk.journal(), way, "charge", desk.effect()) == "ok"


@BOTH
def test_a_step_in_doubt_may_fail_instead(desk: Desk, way: Way) -> None:
    desk.cut()

    with pytest.raises(StepInDoubtError, match="'run:0:pay:charge'") as doubt:
        call(desk.journal(), way, "charge", desk.effect(), "fail")

    assert doubt.value.context == {"effect_key": "run:0:pay:charge", "step": "charge"}
    assert desk.wrote == ["intent run:0:pay:charge"]


@BOTH
def test_a_step_without_doubt_does_not_ask_its_policy(desk: Desk, way: Way) -> None:
    asked: list[Step] = []
    policy = Reconcile(lambda step: asked.append(step))

    assert call(desk.journal(), way, "charge", desk.effect("ok"), policy) == "ok"
    assert call(desk.journal(), way, "refund", desk.effect("ok"), "fail") == "ok"
    assert asked == []


@BOTH
@pytest.mark.parametrize("result", ["found", None, {}])
def test_what_reconciling_finds_is_the_result(desk: Desk, way: Way, result: Any) -> None:
    desk.cut()

    found = call(
        desk.journal(), way, "charge", desk.effect(), Reconcile(lambda step: Found(result))
    )

    assert found == result
    assert desk.wrote == ["intent run:0:pay:charge", "result run:0:pay:charge"]
    assert call(desk.journal(), way, "charge", desk.effect("again")) == result


@BOTH
def test_what_reconciling_does_not_find_is_done(desk: Desk, way: Way) -> None:
    asked: list[Step] = []
    desk.cut()

    result = call(
        desk.journal(),
        way,
        "charge",
        desk.effect("done now"),
        Reconcile(lambda step: asked.append(step)),
    )

    assert result == "done now"
    assert asked == [Step(effect_key="run:0:pay:charge", in_doubt=True)]


@BOTH
def test_a_look_up_answers_found_or_none(desk: Desk, way: Way) -> None:
    """The async twin took any other answer for "never", and had the effect a second time."""
    desk.cut()
    wrong: Any = Reconcile(lambda step: {"id": 7})  # pyright: ignore[reportArgumentType]

    with pytest.raises(OrchestratorConfigError, match="Found"):
        call(desk.journal(), way, "charge", desk.effect(), wrong)

    assert desk.wrote == ["intent run:0:pay:charge"]


# -- names


def test_the_nth_of_a_name_is_told_apart_by_n(desk: Desk) -> None:
    first = desk.journal()
    results = [first.step("charge", desk.effect(n)) for n in range(3)]
    again = desk.journal()

    assert results == [0, 1, 2]
    assert [again.step("charge", desk.effect("new")) for _ in range(3)] == [0, 1, 2]


def test_iterations_intents_and_names_have_journals_of_their_own(desk: Desk) -> None:
    keys: set[str] = set()
    for iteration in (0, 1):
        for intent in ("a", "b"):
            for name in ("x", "y"):
                journal = desk.journal(intent, iteration)
                journal.step(name, lambda step: keys.add(step.effect_key))

    assert len(keys) == 8


@pytest.mark.parametrize(
    "calls",
    [
        [("pay", ["charge", "charge", "charge:1"])],
        [("pay", ["charge:1", "charge", "charge"])],
        [("pay:a", ["b"]), ("pay", ["a:b"])],
        [("pay", ["a%3Ab", "a:b"])],
    ],
)
def test_no_two_steps_have_one_key(desk: Desk, calls: list[tuple[str, list[str]]]) -> None:
    """The second `charge` and `charge:1` had one: the third of these steps was answered with the second's result."""
    keys: list[str] = []

    for intent, names in calls:
        journal = desk.journal(intent)
        for name in names:
            journal.step(name, lambda step: keys.append(step.effect_key))

    assert len(set(keys)) == sum(len(names) for _, names in calls)


def test_async_steps_side_by_side_get_their_ordinals_in_the_order_of_their_calls(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were numbered on threads, in any order: the next attempt could answer one with the other's result."""
    journal = desk.journal()
    threads: list[int] = []
    second_began = threading.Event()
    begin_step = desk.ledger.begin_step

    def hold_the_first() -> None:
        threads.append(threading.get_ident())
        if threading.get_ident() == threads[0]:
            second_began.wait(10)

    def begin(claim: Claim, run_id: str, effect_key: str, name: str) -> StepRecord:
        record = begin_step(claim, run_id, effect_key, name)
        second_began.set()
        return record

    monkeypatch.setattr(desk.ledger, "begin_step", begin)
    monkeypatch.setattr(desk.world.watch, "check_call", hold_the_first)

    async def both() -> Any:
        return await asyncio.gather(
            journal.astep("charge", lambda step: step.effect_key),
            journal.astep("charge", lambda step: step.effect_key),
        )

    assert asyncio.run(both()) == ["run:0:pay:charge", "run:0:pay:charge:1"]


@BOTH
@pytest.mark.parametrize("name", ["", None, 7, "nul \x00"])
def test_a_step_has_a_name(desk: Desk, way: Way, name: Any) -> None:
    with pytest.raises(OrchestratorConfigError):
        call(desk.journal(), way, name, desk.effect())

    assert desk.wrote == []


@BOTH
@pytest.mark.parametrize("policy", ["ask", "", None, 7, lambda step: None])
def test_a_policy_is_one_of_three(desk: Desk, way: Way, policy: Any) -> None:
    with pytest.raises(OrchestratorConfigError, match="policy=") as refused:
        call(desk.journal(), way, "charge", desk.effect(), policy)

    assert refused.value.context["authoring"] is True
    assert desk.wrote == []


# -- stopped


@BOTH
@pytest.mark.parametrize("verb", ["begin_step", "finish_step"])
def test_a_store_that_does_not_answer_is_no_error_of_the_intents(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, way: Way, verb: str
) -> None:
    """The branch would fail, and its turn go on, as if the author's code had raised."""
    down = StoreUnavailableError("connection reset")

    def fail(*_: Any) -> Any:
        raise down

    monkeypatch.setattr(desk.ledger, verb, fail)

    with pytest.raises(StoreLost) as lost:
        call(desk.journal(), way, "charge", desk.effect())

    assert lost.value.error is down
    assert not isinstance(lost.value, Exception)


@BOTH
def test_a_stop_before_a_step_writes_nothing(desk: Desk, way: Way) -> None:
    desk.world.watch.stops(CancelRequested)

    with pytest.raises(CancelRequested):
        call(desk.journal(), way, "charge", desk.effect())

    assert desk.wrote == []


@BOTH
@pytest.mark.parametrize("reason", [LeaseLost, CancelRequested])
def test_a_stop_while_the_intent_was_written_keeps_the_function_from_being_called(
    desk: Desk, way: Way, reason: type[BaseException]
) -> None:
    """[DESIGN 6] The store may have answered after the lease ran out."""
    desk.world.watch.stops(reason, after=1)

    with pytest.raises(reason):
        call(desk.journal(), way, "charge", desk.effect())

    assert desk.wrote == ["intent run:0:pay:charge"]


@BOTH
def test_a_lost_lease_writes_no_intent_and_calls_nothing(desk: Desk, way: Way) -> None:
    desk.loses_its_lease()

    with pytest.raises(LeaseLost):
        call(desk.journal(), way, "charge", desk.effect())

    assert desk.wrote == ["intent run:0:pay:charge"]
    assert desk.world.stores.tables.steps == {}


@BOTH
def test_a_lease_lost_during_the_effect_writes_no_result(desk: Desk, way: Way) -> None:
    with pytest.raises(LeaseLost):
        call(desk.journal(), way, "charge", lambda step: desk.loses_its_lease())

    (step,) = desk.world.stores.tables.steps.values()
    assert step.status == "intended"
