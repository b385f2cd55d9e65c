"""Stage 6: commit the outcome, once. [O 2.7, DESIGN 5]

One transaction: checkpoint, terminal event, status, outcome, next stage. Running it again after a lost answer finds the
turn moved on; where checkpoints are elsewhere it finds its own checkpoint and only settles.
"""

from __future__ import annotations

from typing import Final

from turnchain.orchestrator_core.contracts import (
    CheckpointRecord,
    NewEvent,
    Outcome,
    SupervisorRun,
    TurnStatus,
)
from turnchain.orchestrator_core.contracts.events import CHECKPOINT_PERSISTED
from turnchain.orchestrator_core.environment import Environment
from turnchain.orchestrator_core.errors import OrchestratorFailedError
from turnchain.orchestrator_core.ports import Unit
from turnchain.orchestrator_core.reporting import report_of, turn_snapshot
from turnchain.orchestrator_core.turn_context import TurnContext

DURABLE: Final = True


def run(turn: TurnContext, env: Environment) -> TurnContext:
    """Give an outcome that was decided outside `dispatch` the report of what the run had cost by then. [O 2.6.3]"""
    outcome = _outcome(turn)
    run = None if outcome.report else _run(turn, env)
    if run is None:
        return turn
    return turn.decided(outcome.model_copy(update={"report": report_of(turn, run, outcome)}))


def commit(turn: TurnContext, env: Environment, unit: Unit) -> None:
    """Add the checkpoint of a turn that settled well, its event, and the outcome."""
    outcome = _outcome(turn)
    if outcome.state is not None:
        env.checkpoints.append(_checkpoint(turn, env, outcome), unit)
        payload = {"sessionId": turn.session.session_id, "turnIndex": turn.work.turn_index}
        unit.add_events([NewEvent(type=CHECKPOINT_PERSISTED, payload=payload)])
    # In place, `persist` was never claimed, which is when a stop is looked for. One that decided the outcome has been.
    unheard = turn.deferred is not None and outcome.status is not TurnStatus.CANCELLED
    unit.settle(outcome, unless_stopped=unheard)


def _checkpoint(turn: TurnContext, env: Environment, outcome: Outcome) -> CheckpointRecord:
    run_id = turn.claim.turn.run_id
    return CheckpointRecord(
        orchestrator_name=turn.session.orchestrator_name,
        session_id=turn.session.session_id,
        turn_index=turn.work.turn_index,
        state=outcome.state or {},
        last_route=outcome.last_route,
        signature=turn.signature,
        version=turn.definition.version,
        turn_id=turn.claim.turn.turn_id,
        run_id=run_id,
        fence=turn.claim.turn.fence,
        turn_snapshot=turn_snapshot(turn, _run(turn, env)),
    )


def _run(turn: TurnContext, env: Environment) -> SupervisorRun | None:
    return turn.run or env.snapshots.load(turn.claim.turn.run_id)


def _outcome(turn: TurnContext) -> Outcome:
    if turn.work.outcome is None:
        raise OrchestratorFailedError(
            f"turn {turn.claim.turn.turn_id} came to persist without an outcome"
        )
    return turn.work.outcome
