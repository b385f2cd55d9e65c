"""Cancel and deadlines: ending what nobody runs, asking those that run."""

from __future__ import annotations

from turnchain.orchestrator_core.contracts import Outcome, Owner, TurnId, TurnRecord, TurnStatus
from turnchain.orchestrator_core.ports import CancelReceipt
from turnchain.orchestrator_core.refusals import cancelled, deadline_exceeded
from turnchain.stores.postgres import rows
from turnchain.stores.postgres.base import Part
from turnchain.stores.postgres.connection import Step
from turnchain.stores.postgres.ending import end_params, ended


class Cancelling(Part):
    """How turns are stopped from outside."""

    def request_cancel(self, turn_id: TurnId, owner: Owner) -> CancelReceipt:
        """As `Ledger.request_cancel`. Asking again keeps the first instant."""
        if not rows.is_turn_id(turn_id):
            return "unknown"
        while True:
            found = self._connections.run_safely("get", {"turn_id": turn_id})
            turn = rows.turn(found[0]) if found else None
            if turn is None or turn.owner != owner:
                return "unknown"
            if turn.status.is_final:
                return "too-late"
            if turn.status is not TurnStatus.QUEUED:
                params = {"turn_id": turn_id}
                asked = self._connections.run_safely("ask_cancel", params, durable=True)
                return "requested" if asked else "too-late"
            if self._end(turn, cancelled()):
                return "cancelled"
            # Admitted or ended since it was read, and never queued again: look once more.

    def expire_deadlines(self, limit: int = 100) -> list[TurnId]:
        """As `Ledger.expire_deadlines`. A turn at persist has its outcome, and keeps it."""
        turns = [rows.turn(row) for row in self._connections.run_safely("late", {"limit": limit})]
        return [turn.turn_id for turn in turns if self._end(turn, deadline_exceeded())]

    def _end(self, turn: TurnRecord, outcome: Outcome) -> bool:
        """End a turn without an owner; False if it stands otherwise by now."""
        params = end_params(turn, ended(turn, outcome), lost=False, died=False)
        if turn.status is not TurnStatus.QUEUED:
            return bool(self._connections.run_safely("end_turn", params, durable=True))
        steps: list[Step] = [
            ("lock_queue", {}),
            ("end_turn", params),
            ("let_up", {"turn_id": turn.turn_id}),
        ]
        return bool(self._connections.run_all(steps, durable=True)[1])
