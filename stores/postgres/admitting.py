"""Admit: which queued turns may run now. The choice itself is SQL, in one function each."""

from __future__ import annotations

from turnchain.orchestrator_core.contracts import TurnId, Wake
from turnchain.stores.postgres import rows
from turnchain.stores.postgres.base import Part


class Admitting(Part):
    """How queued turns start."""

    def admit(self, max_in_flight: int | None = None) -> list[Wake]:
        """As `Ledger.admit`."""
        found = self._connections.run_safely("admit", {"max_in_flight": max_in_flight})
        return [rows.wake(row) for row in found]

    def admit_turn(self, turn_id: TurnId) -> Wake | None:
        """As `Ledger.admit_turn`."""
        if not rows.is_turn_id(turn_id):
            return None
        found = self._connections.run("admit_turn", {"turn_id": turn_id})
        return rows.wake(found[0]) if found else None
