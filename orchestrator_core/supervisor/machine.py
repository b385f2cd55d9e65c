"""The whole supervisor as two pure functions over a value that is the snapshot.

`next_action` says what to do now; `advance` says what we know after it. A run loaded from its snapshot goes on by the
same two functions: resume has no path of its own. [DESIGN 3, O 15.2 G9]
"""

from __future__ import annotations

from dataclasses import dataclass

from turnchain.orchestrator_core.callbacks import END
from turnchain.orchestrator_core.contracts import (
    BranchRecord,
    Carry,
    Decision,
    IterationSnapshot,
    JSONObject,
    OpenIteration,
    Outcome,
    SupervisorRun,
    TurnStatus,
    Usage,
    Verdict,
)
from turnchain.orchestrator_core.definition import Orchestrator
from turnchain.orchestrator_core.errors import MaxIterationsError, SupervisorFailedError, to_record
from turnchain.orchestrator_core.supervisor.actions import (
    Action,
    ActionResult,
    CallEvaluate,
    CallIntent,
    CallNext,
    CallRoute,
    Evaluated,
    Finish,
    IntentReturned,
    Raised,
    Routed,
)
from turnchain.orchestrator_core.supervisor.merge import merged
from turnchain.orchestrator_core.supervisor.routing import (
    decided_before,
    decision_from,
    directive_from,
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What of a definition the machine decides by: data only, no callable."""

    intents: frozenset[str]
    with_next: frozenset[str]
    has_evaluate: bool
    initial_agent: str | None


def plan_of(definition: Orchestrator) -> Plan:
    """The plan of a definition."""
    return Plan(
        intents=frozenset(definition.intents),
        with_next=frozenset(key for key in definition.intents if definition.intent(key).next),
        has_evaluate=definition.evaluate is not None,
        initial_agent=definition.initial_agent,
    )


def begin(run: SupervisorRun, plan: Plan) -> SupervisorRun:
    """The run with its next iteration open, where that needs no call; else as it is."""
    decision = decided_before(run, plan.initial_agent)
    return run.evolve(open=OpenIteration(decision=decision)) if decision else run


def next_action(run: SupervisorRun, plan: Plan) -> Action:
    """What to do now."""
    if run.terminated_by:
        return Finish()
    opened = run.open or begin(run, plan).open
    if opened is None:
        return CallRoute()
    if opened.branch is None:
        return CallIntent(opened.decision.next)
    if not opened.evaluated:
        return CallEvaluate()
    return CallNext(opened.decision.next)


def advance(run: SupervisorRun, plan: Plan, result: ActionResult) -> SupervisorRun:
    """The run after this result. It has one more settled iteration whenever one came to its end."""
    try:
        return _advanced(run if run.open else begin(run, plan), plan, result)
    except SupervisorFailedError as error:
        return _failed(run, to_record(error))


def outcome_of(run: SupervisorRun) -> Outcome:
    """What a terminated run means for its turn. A failed one leaves the session's state as it was. [O 2.6, O 2.8]"""
    dispatched = [one.decision.next for one in run.iterations if one.decision.next != END]
    last_route = dispatched[-1] if dispatched else None
    if run.error:
        over = run.terminated_by == "max-iterations"
        status = TurnStatus.MAX_ITERATIONS if over else TurnStatus.FAILED
        return Outcome(status=status, error=run.error, last_route=last_route)
    return Outcome(
        status=TurnStatus.AWAITING_INPUT, data=run.state, state=run.state, last_route=last_route
    )


def _advanced(run: SupervisorRun, plan: Plan, result: ActionResult) -> SupervisorRun:
    opened = run.open
    if isinstance(result, Raised):
        return _failed(run, result.error)
    if isinstance(result, Routed):
        decision = decision_from(result.returned, plan.intents)
        if decision.next == END:
            return _ended(run, decision)
        return run.evolve(open=OpenIteration(decision=decision))
    if opened is None:
        raise SupervisorFailedError(f"a {type(result).__name__} came while no iteration was open")
    if isinstance(result, IntentReturned):
        return _dispatched(run, opened, plan, result)
    if isinstance(result, Evaluated):
        verdict = result.verdict
        directive_from(verdict.reassign_to if verdict else None, plan.intents, "reassign_to")
        opened = opened.model_copy(update={"verdict": verdict, "evaluated": True})
        return _settled_unless_next(run.evolve(open=opened), opened, plan)
    return _settled(run, opened, directive_from(result.returned, plan.intents, "next"))


def _dispatched(
    run: SupervisorRun, opened: OpenIteration, plan: Plan, result: IntentReturned
) -> SupervisorRun:
    branch = BranchRecord(
        intent=opened.decision.next,
        output=result.output,
        error=result.error,
        usage=result.usage,
        duration=result.duration,
    )
    state = merged(run.state, result.merges or {})
    opened = opened.model_copy(
        update={"branch": branch, "state": state, "evaluated": not plan.has_evaluate}
    )
    return _settled_unless_next(run.evolve(open=opened), opened, plan)


def _settled_unless_next(run: SupervisorRun, opened: OpenIteration, plan: Plan) -> SupervisorRun:
    """Settle the iteration, unless `evaluate` or `next` is still to be asked.

    `next` is not asked of a branch that failed, nor where the verdict already says what comes. [O 3.11.1]
    """
    if not opened.evaluated:
        return run
    verdict = opened.verdict or Verdict()
    failed = opened.branch is not None and opened.branch.error is not None
    if opened.decision.next in plan.with_next and not (
        failed or verdict.satisfied or verdict.reassign_to
    ):
        return run
    return _settled(run, opened, None)


def _settled(run: SupervisorRun, opened: OpenIteration, directive: str | None) -> SupervisorRun:
    verdict = opened.verdict or Verdict()
    branch = opened.branch
    carry = Carry(
        next=directive if directive != END else None,
        reassign_to=verdict.reassign_to,
        feedback=verdict.feedback,
    )
    settled = _with_iteration(run, opened).evolve(carry=carry)
    if verdict.satisfied:
        return settled.evolve(terminated_by="evaluate")
    if directive == END:
        return settled.evolve(terminated_by="route")
    if not run.iterate:
        # One dispatch is the whole turn, END or not [O 0.3 X18]; its error is then the turn's [O 16.1.19].
        error = branch.error if branch else None
        return settled.evolve(terminated_by="error" if error else "dispatch", error=error)
    if settled.iteration + 1 >= run.max_iterations:
        over = MaxIterationsError(
            f"no END after {run.max_iterations} iterations: let route, next or evaluate end the turn, or raise "
            "max_iterations",
            {"max_iterations": run.max_iterations},
        )
        return settled.evolve(terminated_by="max-iterations", error=to_record(over))
    return settled


def _ended(run: SupervisorRun, decision: Decision) -> SupervisorRun:
    """A decision for END settles an iteration of its own, with no result. [O 3.3.3]"""
    opened = OpenIteration(decision=decision, state=run.state)
    return _with_iteration(run, opened).evolve(carry=Carry(), terminated_by="route")


def _failed(run: SupervisorRun, error: JSONObject) -> SupervisorRun:
    """The run with this error. What an intent already did in the open iteration stays on record. [O 3.3.2]"""
    settled = (
        _with_iteration(run, run.open) if run.open and run.open.branch else run.evolve(open=None)
    )
    return settled.evolve(terminated_by="error", error=error)


def _with_iteration(run: SupervisorRun, opened: OpenIteration) -> SupervisorRun:
    branch = opened.branch
    settled = IterationSnapshot(
        iteration=run.iteration + 1,
        decision=opened.decision,
        result={branch.intent: branch} if branch else {},
        state=opened.state if opened.state is not None else run.state,
        verdict=opened.verdict,
        usage=branch.usage if branch else Usage(),
        duration=branch.duration if branch else 0.0,
    )
    return run.evolve(iterations=(*run.iterations, settled), open=None)
