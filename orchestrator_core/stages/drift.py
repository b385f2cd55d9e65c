"""Stage 2: was the session saved by the same definition? [O 2.3]

Reads only what `load` found. Pure, so running it twice gives the same.
"""

from __future__ import annotations

from typing import Final

from turnchain.orchestrator_core.contracts import Outcome, SessionKey, TurnStatus
from turnchain.orchestrator_core.contracts.events import DRIFT_CHECKED
from turnchain.orchestrator_core.environment import Environment
from turnchain.orchestrator_core.errors import OrchestratorDriftError, to_record
from turnchain.orchestrator_core.ports import Unit
from turnchain.orchestrator_core.turn_context import TurnContext

DURABLE: Final = False


def run(turn: TurnContext, env: Environment) -> TurnContext:
    """Go on, or decide that the turn must not touch this session."""
    saved = turn.work.head_signature or turn.signature
    drifted = saved != turn.signature
    turn = turn.saying(DRIFT_CHECKED, signature=turn.signature, drifted=drifted)
    if not drifted or tolerates(turn):
        return turn
    error = drift_error(turn.session, saved, turn.signature)
    return turn.decided(Outcome(status=refusing_status(turn), error=to_record(error)))


def commit(turn: TurnContext, env: Environment, unit: Unit) -> None:
    """Nothing beside the hand-over."""


def drift_error(session: SessionKey, saved: str, current: str) -> OrchestratorDriftError:
    """What a caller is told whose session another definition saved."""
    return OrchestratorDriftError(
        f"session {session.session_id!r} was saved by {session.orchestrator_name!r} with signature {saved}, "
        f"and this worker has {current}: enqueue with force=True, or set on_drift to 'accept' or a migration",
        {
            "session_id": session.session_id,
            "saved_signature": saved,
            "current_signature": current,
        },
    )


def tolerates(turn: TurnContext) -> bool:
    """Whether a drifted turn goes on all the same."""
    return turn.claim.request.force or turn.definition.on_drift != "error"


def refusing_status(turn: TurnContext) -> TurnStatus:
    """A turn that crashed under another definition is set aside for a person; a fresh one just fails. [DESIGN 5]"""
    return TurnStatus.QUARANTINED if turn.claim.turn.takeovers else TurnStatus.FAILED
