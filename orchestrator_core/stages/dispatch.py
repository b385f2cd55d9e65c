"""Stage 5: run the supervisor, saving each iteration before the next begins. [O 3, DESIGN 7]

Writes the snapshot and its events. Running it again goes on after the last settled iteration, and inside the open one
after the last finished step; what has settled is never called again.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final, cast

from turnchain.orchestrator_core.callbacks import DriftContext
from turnchain.orchestrator_core.contracts import (
    IterationSnapshot,
    JSONObject,
    NewEvent,
    Outcome,
    Provider,
    Stage,
    SupervisorRun,
    TurnStatus,
    checked_json,
)
from turnchain.orchestrator_core.contracts.events import ITERATION_COMPLETED, TURN_ROUTED
from turnchain.orchestrator_core.environment import Environment
from turnchain.orchestrator_core.errors import (
    CancelRequested,
    DeadlinePassed,
    OrchestratorFailedError,
    SchemaMissingError,
    SessionOwnerError,
    StoreUnavailableError,
    SupervisorDriftError,
    TurnchainError,
    text_of,
    to_record,
)
from turnchain.orchestrator_core.interpreter import Interpreter
from turnchain.orchestrator_core.ports import Unit
from turnchain.orchestrator_core.refusals import cancelled, deadline_exceeded
from turnchain.orchestrator_core.reporting import report_of
from turnchain.orchestrator_core.stages.drift import refusing_status, tolerates
from turnchain.orchestrator_core.stages.load import call_provider
from turnchain.orchestrator_core.supervisor import Finish, advance, next_action, outcome_of, plan_of
from turnchain.orchestrator_core.supervisor.merge import merged
from turnchain.orchestrator_core.turn_context import TurnContext

DURABLE: Final = False
"""Losing the hand-over repeats nothing: the snapshot, durable, says that the run is over."""

_NO_CONTEXT: Final[MappingProxyType[str, Any]] = MappingProxyType({})


def run(turn: TurnContext, env: Environment) -> TurnContext:
    """Iterate until the run is over, or something outside stops it."""
    run = None if _is_new(turn) else env.snapshots.load(turn.claim.turn.run_id)
    if run and run.signature != turn.signature and not tolerates(turn):
        return turn.decided(_drifted(turn, run))
    try:
        # A run that is over calls nobody any more, and no provider may fail it now.
        context = _NO_CONTEXT if run and run.terminated_by else _context(turn, env)
        run = _begun(turn, env, run)
    except (StoreUnavailableError, SchemaMissingError, SessionOwnerError):
        raise  # not for this stage to answer
    except TurnchainError as error:
        return turn.decided(Outcome(status=TurnStatus.FAILED, error=to_record(error)))
    turn = turn.written()
    try:
        turn, run = _iterate(turn, env, run, context)
        outcome = outcome_of(run)
    except (CancelRequested, DeadlinePassed) as stop:
        # The snapshot is read again, since the iteration that was stopped may have settled ones before it.
        run = env.snapshots.load(run.run_id) or run
        outcome = cancelled() if isinstance(stop, CancelRequested) else deadline_exceeded()
    reported = outcome.model_copy(update={"report": report_of(turn, run, outcome)})
    return replace(turn, run=run).decided(reported)


def commit(turn: TurnContext, env: Environment, unit: Unit) -> None:
    """Nothing beside the hand-over, which carries the outcome."""


def _iterate(
    turn: TurnContext, env: Environment, run: SupervisorRun, context: MappingProxyType[str, Any]
) -> tuple[TurnContext, SupervisorRun]:
    plan = plan_of(turn.definition)
    interpreter = Interpreter(turn, env, context)
    while not isinstance(action := next_action(run, plan), Finish):
        if run.open is None or run.open.branch:  # all that was done so far is saved
            turn.watch.check()
        after = advance(run, plan, interpreter.perform(action, run))
        settled = after.iterations[-1] if after.iteration > run.iteration else None
        say = partial(_say, turn, settled)
        save = partial(env.snapshots.save, after, settled)
        if after.terminated_by and turn.goes_on(Stage.PERSIST):
            # Only `persist` acts on it, in the transaction that commits what came of it.
            turn = turn.deferring(say).deferring_snapshot(save)
        elif settled or after.terminated_by or (after.open and after.open.branch):
            # What has settled, an iteration or its branch. Unsaved, it must not be acted on: a failure fails the stage.
            # [O 3.14.3]
            with turn.unit(env.ledger, durable=True) as unit:
                save(unit)
                say(unit)
        run = after
    return turn, run


def _say(turn: TurnContext, settled: IterationSnapshot | None, unit: Unit) -> None:
    if settled:
        unit.add_events(_events(turn, settled))
    unit.mark_progress()


def _events(turn: TurnContext, settled: IterationSnapshot) -> list[NewEvent]:
    session = {"sessionId": turn.session.session_id, "turnIndex": turn.work.turn_index}
    decision = settled.decision
    source = "intent.next" if decision.source == "initialAgent" else decision.source
    routed = NewEvent(type=TURN_ROUTED, payload={**session, "source": source, "raw": decision.next})
    completed = NewEvent(
        type=ITERATION_COMPLETED, payload={**session, "iteration": settled.iteration}
    )
    return [routed, completed]


def _is_new(turn: TurnContext) -> bool:
    """Whether nobody can have begun the turn's run: it comes here for the first time, with an earlier stage's claim."""
    return turn.deferred is not None and turn.claim.turn.run_id == turn.claim.turn.turn_id


def _begun(turn: TurnContext, env: Environment, run: SupervisorRun | None) -> SupervisorRun:
    """The run, on record before the first call, so that a crash in iteration 0 leaves a trace. [O 0.3 X14]"""
    if run and not turn.deferred:
        return run
    # Not durable: whatever is lost here is made again from the same checkpoint, and later durable writes flush it.
    begun = run or _started(turn, env)
    with turn.unit(env.ledger, durable=False) as unit:
        if run is None:
            env.snapshots.save(begun, None, unit)
    return begun


def _started(turn: TurnContext, env: Environment) -> SupervisorRun:
    request = turn.claim.request
    return SupervisorRun(
        run_id=turn.claim.turn.run_id,
        session=turn.session,
        turn_index=turn.work.turn_index,
        signature=turn.signature,
        version=turn.definition.version,
        input=request.input,
        seed_state=merged(_session_state(turn, env), request.state),
        max_iterations=turn.definition.iteration_limit,
        iterate=turn.definition.iterate,
    )


def _session_state(turn: TurnContext, env: Environment) -> JSONObject:
    head = turn.head[0] if turn.head else env.checkpoints.load(turn.session)
    if head is None:
        return turn.definition.initial_state()
    migrate = turn.definition.on_drift
    if head.signature == turn.signature or not callable(migrate):
        return head.state
    return migrated(turn, head.signature, head.state)


def migrated(turn: TurnContext, saved_signature: str, state: JSONObject) -> JSONObject:
    """The state as the author's migration returns it.

    Raises:
        SupervisorDriftError: it raised, or returned no JSON object.
    """
    migrate = turn.definition.on_drift
    try:
        asked = DriftContext(session=turn.session, saved_signature=saved_signature, state=state)
        return dict(checked_json("state", cast("Any", migrate)(asked)))
    except Exception as error:
        raise SupervisorDriftError(
            f"on_drift of {turn.definition.name!r} raised {type(error).__name__}: {text_of(error)}",
            {"session_id": turn.session.session_id, "saved_signature": saved_signature},
        ) from error


def _context(turn: TurnContext, env: Environment) -> MappingProxyType[str, Any]:
    """The request's context; a provider runs here, where the intents are called, so that it may give handles."""
    given = turn.claim.request.context
    if not isinstance(given, Provider):
        return MappingProxyType(given)
    value = call_provider(turn, env, given, "context")
    if not isinstance(value, dict):
        raise OrchestratorFailedError(
            f"the context provider {given.name!r} returned a {type(value).__name__}: return a dict",
            {"field": "context"},
        )
    return MappingProxyType(cast("dict[str, Any]", value))


def _drifted(turn: TurnContext, run: SupervisorRun) -> Outcome:
    error = SupervisorDriftError(
        f"run {run.run_id!r} began under signature {run.signature}, and this worker has {turn.signature}: deploy the "
        "former definition until it is done, or enqueue with force=True",
        {
            "run_id": run.run_id,
            "saved_signature": run.signature,
            "current_signature": turn.signature,
        },
    )
    return Outcome(status=refusing_status(turn), error=to_record(error))
