"""The supervisor as a machine: what it asks for, what it makes of the answers, and that it may be cut anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.orchestrator_core.builders import run_of
from turnchain.orchestrator_core.callbacks import END
from turnchain.orchestrator_core.contracts import (
    IterationSnapshot,
    SupervisorRun,
    TurnStatus,
    Usage,
    Verdict,
)
from turnchain.orchestrator_core.definition import Intent, Orchestrator
from turnchain.orchestrator_core.supervisor import (
    Action,
    ActionResult,
    CallEvaluate,
    CallIntent,
    CallNext,
    CallRoute,
    Evaluated,
    Finish,
    IntentReturned,
    NextGiven,
    Plan,
    Raised,
    Routed,
    advance,
    next_action,
    outcome_of,
    plan_of,
)

ERROR = {"type": "ValueError", "code": "SUPERVISOR_FAILED", "category": "unknown", "message": "no"}


def plan(**fields: Any) -> Plan:
    given: dict[str, Any] = {
        "intents": frozenset({"a", "b", "c"}),
        "with_next": frozenset(),
        "has_evaluate": False,
        "initial_agent": None,
    }
    return Plan(**{**given, **fields})


@dataclass
class Script:
    """A definition's callables as data: what they answer in each iteration, the same in every attempt."""

    plan: Plan
    routes: Mapping[int, Any] = field(default_factory=dict[int, Any])
    """END where nothing is said."""
    branches: Mapping[int, IntentReturned] = field(default_factory=dict[int, IntentReturned])
    verdicts: Mapping[int, ActionResult] = field(default_factory=dict[int, ActionResult])
    nexts: Mapping[int, ActionResult] = field(default_factory=dict[int, ActionResult])

    def answer(self, action: Action, run: SupervisorRun) -> ActionResult:
        """What the action comes to."""
        iteration = run.iteration + 1
        if isinstance(action, CallRoute):
            routed = self.routes.get(iteration, END)
            return routed if isinstance(routed, Raised) else Routed(routed)
        if isinstance(action, CallIntent):
            return self.branches.get(iteration, IntentReturned(merges={f"i{iteration}": iteration}))
        if isinstance(action, CallEvaluate):
            return self.verdicts.get(iteration, Evaluated(None))
        assert isinstance(action, CallNext), action
        return self.nexts.get(iteration, NextGiven(None))

    def drive(self, run: SupervisorRun) -> Iterator[tuple[Action, SupervisorRun]]:
        """Each action with the run after it, until the run is over."""
        while not isinstance(action := next_action(run, self.plan), Finish):
            run = advance(run, self.plan, self.answer(action, run))
            yield action, run

    def end(self, run: SupervisorRun) -> SupervisorRun:
        """The run when it is over."""
        for _, after in self.drive(run):
            run = after
        return run


def reloaded(run: SupervisorRun) -> SupervisorRun:
    """The run as another process finds it after a crash: a head text and a text an iteration."""
    head, rows = run.model_dump_json(), [one.model_dump_json() for one in run.iterations]
    iterations = tuple(IterationSnapshot.model_validate_json(row) for row in rows)
    return SupervisorRun.model_validate_json(head).evolve(iterations=iterations)


def dispatched(run: SupervisorRun) -> list[str]:
    return [one.decision.next for one in run.iterations]


# -- what it asks for


def test_a_plan_is_what_of_a_definition_decides() -> None:
    definition = Orchestrator(
        name="o",
        intents={"a": lambda ctx: None, "b": Intent(run=lambda ctx: None, next=lambda ctx: END)},
        route=lambda ctx: END,
        evaluate=lambda ctx: None,
        initial_agent="a",
    )

    assert plan_of(definition) == Plan(
        intents=frozenset({"a", "b"}),
        with_next=frozenset({"b"}),
        has_evaluate=True,
        initial_agent="a",
    )


def test_an_iteration_asks_route_intent_evaluate_next_in_this_order() -> None:
    """[O 3.3] `evaluate` sees the merge; `next` is asked last."""
    script = Script(plan(with_next={"a"}, has_evaluate=True), routes={0: "a"})

    actions = [action for action, _ in script.drive(run_of())]

    assert actions == [CallRoute(), CallIntent("a"), CallEvaluate(), CallNext("a"), CallRoute()]


def test_what_is_not_there_is_not_asked() -> None:
    script = Script(plan(), routes={0: "a"})

    assert [action for action, _ in script.drive(run_of())] == [
        CallRoute(),
        CallIntent("a"),
        CallRoute(),
    ]


def test_the_initial_agent_is_dispatched_without_asking_route() -> None:
    """[O 0.3 X9]."""
    script = Script(plan(initial_agent="b"))

    assert [action for action, _ in script.drive(run_of())] == [CallIntent("b"), CallRoute()]
    assert script.end(run_of()).iterations[0].decision.source == "initialAgent"
    assert [action for action, _ in script.drive(run_of(turn_index=1))] == [CallRoute()]


# -- how it ends


def test_a_route_to_end_settles_an_iteration_of_its_own() -> None:
    """[O 3.3.3, O 16.3 49] Writer, then END: two iterations; END at once: one."""
    two = Script(plan(), routes={0: "a"}).end(run_of())
    one = Script(plan()).end(run_of())

    assert (dispatched(two), two.terminated_by) == (["a", END], "route")
    assert (dispatched(one), one.terminated_by) == ([END], "route")
    assert two.iterations[1].result == {}
    assert two.iterations[1].state == two.iterations[0].state


def test_the_last_allowed_iteration_without_end_is_one_too_many() -> None:
    """[O 16.3 52]."""
    script = Script(plan(), routes=dict.fromkeys(range(9), "a"))

    run = script.end(run_of(max_iterations=3))

    assert (dispatched(run), run.terminated_by) == (["a"] * 3, "max-iterations")
    outcome = outcome_of(run)
    assert outcome.status is TurnStatus.MAX_ITERATIONS
    assert outcome.error is not None
    assert outcome.error["code"] == "SUPERVISOR_MAX_ITERATIONS"
    assert outcome.error["context"] == {"max_iterations": 3}
    assert (outcome.state, outcome.data) == (None, None)


def test_a_route_that_names_nobody_fails_the_run() -> None:
    """[O 16.3 53] Nothing was dispatched, so nothing settles."""
    run = Script(plan(), routes={0: "a", 1: "ghost"}).end(run_of())

    assert (dispatched(run), run.terminated_by) == (["a"], "error")
    outcome = outcome_of(run)
    assert outcome.error is not None
    assert outcome.error["code"] == "SUPERVISOR_INVALID_ROUTE"
    assert outcome.error["context"]["available_keys"] == ["a", "b", "c"]
    assert (outcome.status, outcome.last_route) == (TurnStatus.FAILED, "a")


def test_a_raising_route_fails_the_run() -> None:
    run = Script(plan(), routes={0: Raised(ERROR)}).end(run_of())

    assert (run.error, run.terminated_by, run.iterations) == (ERROR, "error", ())


def test_a_satisfied_evaluate_ends_the_run() -> None:
    """[O 16.3 57] Also where it names who should go on. [O 3.10.1]."""
    verdict = Verdict(satisfied=True, reassign_to="b")
    script = Script(plan(has_evaluate=True), routes={0: "a"}, verdicts={0: Evaluated(verdict)})

    run = script.end(run_of())

    assert (dispatched(run), run.terminated_by) == (["a"], "evaluate")
    assert run.iterations[0].verdict == verdict
    assert outcome_of(run).data == {"i0": 0}


def test_a_reassignment_decides_the_next_iteration() -> None:
    """[O 16.3 57, 58] `next` is not asked, and `route` neither."""
    verdict = Verdict(reassign_to="b", feedback="too vague")
    script = Script(
        plan(has_evaluate=True, with_next={"a"}),
        routes={0: "a"},
        verdicts={0: Evaluated(verdict)},
        nexts={0: NextGiven("c")},
    )

    actions = [action for action, _ in script.drive(run_of())]
    run = script.end(run_of())

    assert CallNext("a") not in actions
    assert dispatched(run) == ["a", "b", END]
    assert run.iterations[1].decision.reasoning == "too vague"


def test_feedback_is_carried_to_the_next_iteration_alone() -> None:
    """[O 3.10.3]."""
    script = Script(
        plan(has_evaluate=True),
        routes={0: "a", 1: "b"},
        verdicts={0: Evaluated(Verdict(feedback="again"))},
    )

    seen = [
        run.carry.feedback
        for action, run in script.drive(run_of())
        if isinstance(action, CallRoute)
    ]

    assert seen == [None, "again", None]


@pytest.mark.parametrize(
    ("given", "decided", "by"),
    [("b", ["a", "b", END], "route"), (END, ["a"], "route"), (None, ["a", END], "route")],
)
def test_next_directs_ends_or_abstains(given: str | None, decided: list[str], by: str) -> None:
    """[O 3.11.2, O 16.3 58] END by `next` needs no iteration of its own."""
    script = Script(plan(with_next={"a"}), routes={0: "a"}, nexts={0: NextGiven(given)})

    run = script.end(run_of())

    assert (dispatched(run), run.terminated_by) == (decided, by)


@pytest.mark.parametrize("bad", [NextGiven("ghost"), NextGiven(7), Raised(ERROR)])
def test_a_bad_next_fails_the_run_and_keeps_the_branch(bad: ActionResult) -> None:
    """[O 3.11.3]."""
    script = Script(plan(with_next={"a"}), routes={0: "a"}, nexts={0: bad})

    run = script.end(run_of())

    assert (dispatched(run), run.terminated_by) == (["a"], "error")
    assert run.error is not None
    assert run.error["code"] == "SUPERVISOR_FAILED"
    assert "a" in run.iterations[0].result


@pytest.mark.parametrize("bad", [Evaluated(Verdict(reassign_to="ghost")), Raised(ERROR)])
def test_a_bad_evaluate_fails_the_run_and_keeps_the_branch(bad: ActionResult) -> None:
    """[O 16.5 T30] The intent was paid for: what it did stays on record."""
    paid = IntentReturned(output={"x": 1}, merges={"x": 1}, usage=Usage(input=3, total=3))
    script = Script(plan(has_evaluate=True), routes={0: "a"}, branches={0: paid}, verdicts={0: bad})

    run = script.end(run_of())

    assert run.terminated_by == "error"
    assert run.iterations[0].result["a"].output == {"x": 1}
    assert run.usage == Usage(input=3, total=3)


def test_a_failed_branch_does_not_fail_an_iterating_run() -> None:
    """[O 2.6.1] It merges nothing, and its `next` is not asked [O 3.8.5, O 3.11.1]."""
    script = Script(
        plan(with_next={"a"}),
        routes={0: "a"},
        branches={0: IntentReturned(error=ERROR)},
        nexts={0: NextGiven("b")},
    )

    run = script.end(run_of(seed_state={"kept": True}))

    assert dispatched(run) == ["a", END]
    assert run.iterations[0].result["a"].error == ERROR
    outcome = outcome_of(run)
    assert (outcome.status, outcome.state) == (TurnStatus.AWAITING_INPUT, {"kept": True})


def test_a_failed_branch_is_evaluated_all_the_same() -> None:
    script = Script(
        plan(has_evaluate=True), routes={0: "a"}, branches={0: IntentReturned(error=ERROR)}
    )

    assert CallEvaluate() in [action for action, _ in script.drive(run_of())]


# -- one dispatch a turn


def test_one_dispatch_is_a_whole_turn_without_end() -> None:
    """[O 0.3 X18, O 16.5 T1]."""
    run = Script(plan(), routes={0: "a"}).end(run_of(iterate=False, max_iterations=1))

    assert (dispatched(run), run.terminated_by, run.error) == (["a"], "dispatch", None)
    assert outcome_of(run).status is TurnStatus.AWAITING_INPUT


def test_the_error_of_the_one_dispatch_is_the_turns() -> None:
    """[O 16.1 19]."""
    script = Script(plan(), routes={0: "a"}, branches={0: IntentReturned(error=ERROR)})

    run = script.end(run_of(iterate=False, max_iterations=1))

    assert (run.terminated_by, run.error) == ("error", ERROR)
    assert outcome_of(run).status is TurnStatus.FAILED


@pytest.mark.parametrize("given", ["b", END, None])
def test_the_one_dispatch_is_the_last_whatever_next_says(given: str | None) -> None:
    script = Script(plan(with_next={"a"}), routes={0: "a"}, nexts={0: NextGiven(given)})

    run = script.end(run_of(iterate=False, max_iterations=1))

    assert (dispatched(run), run.error) == (["a"], None)


# -- what a run means for its turn


def test_the_last_route_is_the_last_that_dispatched() -> None:
    """[O 0.3 X19] None only where nothing dispatched."""
    assert outcome_of(Script(plan(), routes={0: "a", 1: "b"}).end(run_of())).last_route == "b"
    assert outcome_of(Script(plan()).end(run_of())).last_route is None


def test_state_is_the_seed_with_all_slices_over_it() -> None:
    script = Script(
        plan(),
        routes={0: "a", 1: "b"},
        branches={0: IntentReturned(merges={"x": 1}), 1: IntentReturned(merges={"x": 2, "y": 1})},
    )

    run = script.end(run_of(seed_state={"x": 0, "z": 0}))

    assert [one.state for one in run.iterations[:2]] == [{"x": 1, "z": 0}, {"x": 2, "y": 1, "z": 0}]
    assert outcome_of(run).state == {"x": 2, "y": 1, "z": 0}


def test_an_answer_that_nobody_waits_for_fails_the_run() -> None:
    run = advance(run_of(), plan(), NextGiven(None))

    assert run.terminated_by == "error"


# -- any definition, cut anywhere

KEYS = st.sampled_from("abc")
ERRORS = st.just(Raised(ERROR))
ITERATIONS = st.integers(min_value=0, max_value=4)
STATES = st.dictionaries(st.sampled_from("xyz"), st.integers(), max_size=2)
BRANCHES = st.builds(
    IntentReturned,
    output=st.none() | st.integers(),
    merges=st.none() | STATES,
    error=st.sampled_from([None, None, None, ERROR]),
    usage=st.builds(Usage, input=st.integers(0, 9), total=st.integers(0, 9)),
    duration=st.floats(0, 9),
)
VERDICTS = st.builds(
    Verdict,
    satisfied=st.sampled_from([False, False, False, True]),
    reassign_to=st.none() | KEYS | st.sampled_from([END, "ghost"]),
    feedback=st.none() | st.just("again"),
)


def per_iteration(answers: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(ITERATIONS, answers, max_size=5)


SCRIPTS = st.builds(
    Script,
    plan=st.builds(
        Plan,
        intents=st.just(frozenset("abc")),
        with_next=st.frozensets(KEYS),
        has_evaluate=st.booleans(),
        initial_agent=st.none() | KEYS,
    ),
    routes=per_iteration(KEYS | KEYS | KEYS | st.sampled_from([END, "ghost", 7, None]) | ERRORS),
    branches=per_iteration(BRANCHES),
    verdicts=per_iteration(st.builds(Evaluated, st.none() | VERDICTS) | ERRORS),
    nexts=per_iteration(
        st.builds(NextGiven, st.none() | KEYS | st.sampled_from([END, "ghost", 7])) | ERRORS
    ),
)
RUNS = st.builds(
    run_of,
    turn_index=st.integers(0, 1),
    seed_state=STATES,
    max_iterations=st.integers(1, 5),
    iterate=st.just(True),
) | st.builds(run_of, max_iterations=st.just(1), iterate=st.just(False))


@settings(max_examples=200, deadline=None)
@given(script=SCRIPTS, run=RUNS)
def test_iterations_are_gapless_bounded_and_never_change(
    script: Script, run: SupervisorRun
) -> None:
    """[O 15.5 I7]."""
    limit = run.max_iterations

    for count, (_, after) in enumerate(script.drive(run)):
        assert count <= 4 * limit, "the run goes on for ever"
        assert after.iterations[: len(run.iterations)] == run.iterations
        assert len(after.iterations) - len(run.iterations) in (0, 1)
        assert [one.iteration for one in after.iterations] == list(range(len(after.iterations)))
        run = after

    assert len(run.iterations) <= limit
    assert run.open is None


@settings(max_examples=200, deadline=None)
@given(script=SCRIPTS, run=RUNS)
def test_a_run_that_is_over_asks_for_nothing(script: Script, run: SupervisorRun) -> None:
    """[O 16.5 T11, T34] Also after a reload: nothing is dispatched again."""
    over = script.end(run)

    assert next_action(over, script.plan) == Finish()
    assert next_action(reloaded(over), script.plan) == Finish()
    assert (over.terminated_by == "error") <= (over.error is not None)
    assert outcome_of(over).status.is_final


@settings(max_examples=200, deadline=None)
@given(script=SCRIPTS, run=RUNS)
def test_a_run_cut_anywhere_and_continued_comes_to_the_same(
    script: Script, run: SupervisorRun
) -> None:
    """[O 15.5 I10, O 15.1 G9, O 16.5 T32] Decisions, states, usage, carry and outcome, whatever the cut."""
    stops = [run, *(after for _, after in script.drive(run))]

    for stop in stops:
        continued = script.end(reloaded(stop))

        assert continued == stops[-1]
        assert outcome_of(continued) == outcome_of(stops[-1])


@settings(max_examples=200, deadline=None)
@given(script=SCRIPTS, run=RUNS)
def test_state_is_the_fold_of_the_settled_slices(script: Script, run: SupervisorRun) -> None:
    """[O 15.5 I3]."""
    state = dict(run.seed_state)
    intended = script.branches

    over = script.end(run)

    for one in over.iterations:
        if one.decision.next != END:
            default = IntentReturned(merges={f"i{one.iteration}": one.iteration})
            state |= intended.get(one.iteration, default).merges or {}
        assert one.state == state
