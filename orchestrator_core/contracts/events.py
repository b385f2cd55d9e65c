"""What happened to a turn, in order. [O 9]"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from pydantic import Field

from turnchain.orchestrator_core.contracts.base import JSONObject, Record
from turnchain.orchestrator_core.contracts.turns import Outcome, TurnRecord, TurnStatus

TURN_STARTING: Final = "orchestrator.turn.starting"
SESSION_LOADED: Final = "orchestrator.session.loaded"
DRIFT_CHECKED: Final = "orchestrator.drift.checked"
LOCK_WAITING: Final = "orchestrator.lock.waiting"
HISTORY_WINDOWED: Final = "orchestrator.history.windowed"
TURN_ROUTED: Final = "orchestrator.turn.routed"
ITERATION_COMPLETED: Final = "supervisor.iteration.completed"
CHECKPOINT_PERSISTED: Final = "orchestrator.checkpoint.persisted"
TURN_AWAITING_INPUT: Final = "orchestrator.turn.awaiting-input"
TURN_FAILED: Final = "orchestrator.turn.failed"
TURN_CANCELLED: Final = "orchestrator.turn.cancelled"

TERMINAL: Final = frozenset({TURN_AWAITING_INPUT, TURN_FAILED, TURN_CANCELLED})


def terminal_event(status: TurnStatus) -> str:
    """The one event that ends a turn of this final status. [O 2.6.5]"""
    if status is TurnStatus.AWAITING_INPUT:
        return TURN_AWAITING_INPUT
    return TURN_CANCELLED if status is TurnStatus.CANCELLED else TURN_FAILED


def ending_payload(turn: TurnRecord, outcome: Outcome) -> JSONObject:
    """What the terminal event says beside its type. [O 9.1]"""
    return {
        "sessionId": turn.session.session_id,
        "turnIndex": turn.turn_index,
        "status": outcome.status.value,
    }


class NewEvent(Record):
    """An event before the ledger has given it its place."""

    type: str
    payload: JSONObject = Field(default_factory=dict)


class TurnEvent(NewEvent):
    """An event in its place. `(turn_id, seq)` is its identity: a reader that has seen it drops it."""

    turn_id: str
    seq: int
    """From 1, without gaps, within the turn."""
    at: datetime

    @property
    def is_terminal(self) -> bool:
        """Whether nothing of the turn's outcome comes after it."""
        return self.type in TERMINAL
