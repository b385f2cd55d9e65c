"""How the ledger ends turns that no stage ends: dead, interrupted, cancelled, too late.

Everything here is decided on a row as it was read, and written only if it still stands so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from turnchain.orchestrator_core.contracts import NewEvent, Outcome, TurnRecord, to_json
from turnchain.orchestrator_core.contracts.events import ending_payload, terminal_event
from turnchain.orchestrator_core.refusals import dead, interrupted
from turnchain.stores.postgres.rows import outcome_json

COMPACTION_FAILED: Final = "orchestrator.compaction.failed"


@dataclass(frozen=True, slots=True)
class Ending:
    """How a turn ends, and the one event that says so. Without an outcome, it has one already."""

    outcome: Outcome | None
    event: NewEvent
    keeps_request: bool = False
    """An interrupted turn is asked again by resume(), with its history."""


def ended(turn: TurnRecord, outcome: Outcome, *, keeps_request: bool = False) -> Ending:
    """End with this outcome."""
    payload = ending_payload(turn, outcome)
    event = NewEvent(type=terminal_event(outcome.status), payload=payload)
    return Ending(outcome, event, keeps_request)


def after_silence(turn: TurnRecord) -> Ending:
    """What becomes of an engine's turn without an owner when the engine is gone."""
    if turn.status.is_final:
        return Ending(None, NewEvent(type=COMPACTION_FAILED, payload={"attempts": turn.attempts}))
    return ended(turn, interrupted(), keeps_request=True)


def after_loss(turn: TurnRecord, max_attempts: int) -> Ending | None:
    """What the loss of its owner does to a turn; None makes it ready for another one."""
    attempts = turn.attempts + 1
    is_engine = turn.runner == "engine"
    if not is_engine and attempts < max_attempts:
        return None
    if turn.status.is_final:
        # Its answer is out; only upkeep is lost.
        return Ending(None, NewEvent(type=COMPACTION_FAILED, payload={"attempts": attempts}))
    return after_silence(turn) if is_engine else ended(turn, dead(attempts))


def stand_params(turn: TurnRecord) -> dict[str, Any]:
    """How the turn stood when it was read."""
    return {
        "turn_id": turn.turn_id,
        "stage": turn.stage.value,
        "fence": turn.fence,
        "lease_owner": turn.lease_owner,
        "lease_expires_at": turn.lease_expires_at,
    }


def end_params(turn: TurnRecord, ending: Ending, *, lost: bool, died: bool) -> dict[str, Any]:
    """The parameters of `end_turn`. `died`: the owner is dead, however fresh its lease is."""
    outcome = ending.outcome
    return {
        **stand_params(turn),
        "status": turn.status.value,
        "final_status": None if outcome is None else outcome.status.value,
        "outcome": None if outcome is None else outcome_json(outcome),
        "event_type": ending.event.type,
        "event_payload": to_json(ending.event.payload),
        "keeps_request": ending.keeps_request,
        "lost": int(lost),
        "died": died,
    }
