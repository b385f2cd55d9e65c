"""What producers and stages read."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import timedelta

from turnchain.orchestrator_core.contracts import (
    Owner,
    SessionKey,
    SettledTurn,
    TurnEvent,
    TurnId,
    TurnRecord,
    TurnRequest,
)
from turnchain.orchestrator_core.errors import TurnInterruptedError
from turnchain.stores.postgres import rows
from turnchain.stores.postgres.base import Part
from turnchain.stores.postgres.listening import PostgresListener, listening


class Reading(Part):
    """How it stands."""

    def get(self, turn_id: TurnId, owner: Owner | None = None) -> TurnRecord | None:
        """As `Ledger.get`."""
        if not rows.is_turn_id(turn_id):
            return None
        found = self._connections.run_safely("get", {"turn_id": turn_id})
        turn = rows.turn(found[0]) if found else None
        return turn if turn and owner in (None, turn.owner) else None

    def settled(self, turn_ids: Iterable[TurnId]) -> list[SettledTurn]:
        """As `Ledger.settled`, in the order asked for."""
        asked = [turn_id for turn_id in turn_ids if rows.is_turn_id(turn_id)]
        if not asked:
            return []
        found = self._connections.run_safely("settled", {"turn_ids": asked})
        turns = {str(row["turn_id"]): row for row in found}
        return [
            SettledTurn(turn=rows.turn(row), outcome=rows.outcome(row))
            for row in (turns.get(turn_id) for turn_id in asked)
            if row is not None
        ]

    def events(self, turn_id: TurnId, *, after: int = 0, limit: int = 500) -> list[TurnEvent]:
        """As `Ledger.events`."""
        if not rows.is_turn_id(turn_id):
            return []
        params = {"turn_id": turn_id, "after": after, "limit": limit}
        found = self._connections.run_safely("events", params)
        return [TurnEvent.model_validate({**row, "turn_id": turn_id}) for row in found]

    def listen(self) -> AbstractContextManager[PostgresListener]:
        """As `Ledger.listen`, on a connection of its own."""
        return listening(self._connections)

    def interrupted(self, session: SessionKey) -> TurnRequest | None:
        """As `Ledger.interrupted`."""
        found = self._connections.run_safely("last_settled", rows.session_params(session))
        if not found or found[0]["runner"] != "engine":
            return None
        error = rows.outcome(found[0]).error or {}
        if error.get("code") != TurnInterruptedError.code:
            return None
        return rows.request(found[0]).model_copy(update={"run_id": found[0]["run_id"]})

    def lock_wait(self, session: SessionKey) -> timedelta | None:
        """As `Ledger.lock_wait`."""
        found = self._connections.run_safely("lock_wait", rows.session_params(session))
        return found[0]["left"] if found else None
