"""Cancel and deadlines: ending what nobody runs, asking those that run."""

from __future__ import annotations

from turnchain.orchestrator_core.contracts import Owner, Stage, TurnId, TurnStatus
from turnchain.orchestrator_core.ports import CancelReceipt
from turnchain.orchestrator_core.refusals import cancelled, deadline_exceeded
from turnchain.stores.memory.base import Part
from turnchain.stores.memory.ending import end
from turnchain.stores.memory.turns import TurnRow


class Cancelling(Part):
    """How turns are stopped from outside."""

    def request_cancel(self, turn_id: TurnId, owner: Owner) -> CancelReceipt:
        """As `Ledger.request_cancel`. Asking again keeps the first instant."""
        with self.tables.lock:
            row = self.tables.turns.get(turn_id)
            if row is None or row.owner != owner:
                return "unknown"
            if row.status.is_final or _is_being_committed(row):
                return "too-late"
            now = self.tables.now()
            row.cancel_requested_at = row.cancel_requested_at or now
            if row.status is TurnStatus.QUEUED:
                end(self.tables, row, cancelled())
                return "cancelled"
            if row.parked is not None:
                # Its next claim is what ends it, and nothing else would wake it up soon.
                row.make_ready(now)
                row.woken_at = now if row.runner == "engine" else None  # due at the next sweep
            return "requested"

    def expire_deadlines(self, limit: int = 100) -> list[TurnId]:
        """As `Ledger.expire_deadlines`. A turn at persist has its outcome, and keeps it."""
        with self.tables.lock:
            late = [row for row in self.tables.unfinished.values() if self._is_late(row)][:limit]
            for row in late:
                end(self.tables, row, deadline_exceeded())
            return [row.turn_id for row in late]

    def _is_late(self, row: TurnRow) -> bool:
        if row.deadline is None or row.lease_owner is not None or row.status.is_final:
            return False
        return row.stage.order < Stage.PERSIST.order and row.deadline <= self.tables.now()


def _is_being_committed(row: TurnRow) -> bool:
    """Whether `persist` was claimed: what is asked before is seen by that claim. [DESIGN 5]."""
    return row.stage is Stage.PERSIST and row.lease_owner is not None
