"""Cancel and deadlines: ending what nobody runs, asking those that run."""

from __future__ import annotations

from turnchain.orchestrator_core.contracts import Owner, TurnId, TurnStatus
from turnchain.orchestrator_core.ports import CancelReceipt
from turnchain.orchestrator_core.refusals import cancelled, deadline_exceeded
from turnchain.stores.postgres import rows
from turnchain.stores.postgres.base import Part
from turnchain.stores.postgres.ending import ended


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
            if self.end_unowned(turn, ended(turn, cancelled())):
                return "cancelled"
            # Admitted or ended since it was read, and never queued again: look once more.

    def expire_deadlines(self, limit: int = 100) -> list[TurnId]:
        """As `Ledger.expire_deadlines`. A turn at persist has its outcome, and keeps it."""
        turns = [rows.turn(row) for row in self._connections.run_safely("late", {"limit": limit})]
        return [
            turn.turn_id
            for turn in turns
            if self.end_unowned(turn, ended(turn, deadline_exceeded()))
        ]
