"""How turns end: by their own persist stage, or by the ledger for those that cannot.

Callers hold the tables' lock.
"""

from __future__ import annotations

from typing import Final

from turnchain.orchestrator_core.contracts import NewEvent, Outcome, Stage, TurnStatus
from turnchain.orchestrator_core.contracts.events import ending_payload, terminal_event
from turnchain.orchestrator_core.errors import TurnInterruptedError
from turnchain.stores.memory.tables import Tables
from turnchain.stores.memory.turns import TurnRow

COMPACTION_FAILED: Final = "orchestrator.compaction.failed"


def settle(tables: Tables, row: TurnRow, outcome: Outcome) -> None:
    """Write the outcome and the terminal event, once; tell who waits."""
    if row.outcome is not None:
        return
    row.store_outcome(outcome, tables.now())
    ended = NewEvent(
        type=terminal_event(outcome.status),
        payload=ending_payload(row.record(), outcome),
    )
    row.add_event(ended, tables.now())
    session = tables.sessions.get(row.session)
    if outcome.status is TurnStatus.AWAITING_INPUT and session and row.turn_index is not None:
        session.head = max(session.head, row.turn_index)
    for listener in tables.listeners:
        listener.hear(row.turn_id)


def end(tables: Tables, row: TurnRow, outcome: Outcome) -> None:
    """Settle a turn that nobody runs any more, and finish it: it has nothing to compact."""
    settle(tables, row, outcome)
    finish(tables, row)


def give_up_compaction(tables: Tables, row: TurnRow) -> None:
    """Finish a settled turn that cannot be compacted: its answer is out, only upkeep is lost."""
    row.add_event(
        NewEvent(type=COMPACTION_FAILED, payload={"attempts": row.attempts}), tables.now()
    )
    finish(tables, row)


def finish(tables: Tables, row: TurnRow) -> None:
    """Move the turn behind the last stage, and delete what was request-scoped."""
    row.stage = Stage.DONE
    row.release()
    row.work = None
    if not was_interrupted(row):  # that one is asked again by resume(), with its history
        bare = row.read_request().model_copy(update={"history": (), "context": {}})
        row.request = bare.model_dump_json()
    tables.unfinished.pop(row.turn_id, None)


def was_interrupted(row: TurnRow) -> bool:
    """Whether the turn failed because its engine's process went away."""
    if row.status is not TurnStatus.FAILED or row.outcome is None or row.runner != "engine":
        return False
    error = Outcome.model_validate_json(row.outcome).error
    return error is not None and error.get("code") == TurnInterruptedError.code
