"""Stage 7: what comes after the answer is out: retention, and the end of what was request-scoped.

Nothing here can fail the turn, which is final since `persist`. Running it twice deletes what is gone already.
"""

from __future__ import annotations

from typing import Final

from turnchain.orchestrator_core.contracts import Outcome, TurnStatus
from turnchain.orchestrator_core.environment import Environment
from turnchain.orchestrator_core.errors import TurnInterruptedError
from turnchain.orchestrator_core.ports import Unit
from turnchain.orchestrator_core.turn_context import TurnContext

DURABLE: Final = False


def run(turn: TurnContext, env: Environment) -> TurnContext:
    """Prune the session to what its definition keeps."""
    keep = turn.definition.keep_snapshots
    outcome = turn.work.outcome
    if keep != "all" and outcome and outcome.status is TurnStatus.AWAITING_INPUT:
        bound = prune_bound(turn.work.turn_index, keep)
        if bound > 0:
            env.checkpoints.prune(turn.session, keep_before=bound)
    return turn


def commit(turn: TurnContext, env: Environment, unit: Unit) -> None:
    """Delete the snapshot, unless somebody may resume it. [O 0.3 X23]"""
    if not _resumable(turn.work.outcome):
        env.snapshots.delete(turn.claim.turn.run_id, unit)


def prune_bound(turn_index: int, keep: int) -> int:
    """The absolute index below which records go; 0 and less keeps all. [O 2.7.4]"""
    return turn_index - keep + 1


def _resumable(outcome: Outcome | None) -> bool:
    return bool(
        outcome and outcome.error and outcome.error.get("code") == TurnInterruptedError.code
    )
