"""What every part of the ledger works on."""

from __future__ import annotations

from turnchain.orchestrator_core.contracts import Claim
from turnchain.orchestrator_core.errors import LeaseLost
from turnchain.stores.memory.tables import Tables
from turnchain.stores.memory.turns import TurnRow


class Part:
    """A part of the ledger over the tables that all parts share."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def held(self, claim: Claim) -> TurnRow:
        """The claimed turn's row.

        Raises:
            LeaseLost: stage, fence or owner no longer match.
        """
        row = self.owned(claim)
        if not row.is_held_by(claim):
            raise _lost(claim)
        return row

    def owned(self, claim: Claim) -> TurnRow:
        """The claimed turn's row, at whatever stage.

        Raises:
            LeaseLost: fence or owner no longer match.
        """
        row = self.tables.turns.get(claim.turn.turn_id)
        if row is None or not row.is_owned_by(claim):
            raise _lost(claim)
        return row


def _lost(claim: Claim) -> LeaseLost:
    return LeaseLost(f"turn {claim.turn.turn_id!r} is no longer held by {claim.lease_owner!r}")
