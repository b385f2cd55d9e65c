"""What producers and stages read."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from datetime import datetime, timedelta

from turnchain.orchestrator_core.contracts import (
    Outcome,
    Owner,
    SessionKey,
    SettledTurn,
    TurnEvent,
    TurnId,
    TurnRecord,
    TurnRequest,
)
from turnchain.stores.memory.base import Part
from turnchain.stores.memory.ending import was_interrupted
from turnchain.stores.memory.listening import MemoryListener


class Reading(Part):
    """How it stands."""

    def get(self, turn_id: TurnId, owner: Owner | None = None) -> TurnRecord | None:
        """As `Ledger.get`."""
        with self.tables.lock:
            row = self.tables.turns.get(turn_id)
            if row is None or (owner is not None and row.owner != owner):
                return None
            return row.record()

    def settled(self, turn_ids: Iterable[TurnId]) -> list[SettledTurn]:
        """As `Ledger.settled`, in the order asked for."""
        with self.tables.lock:
            rows = [self.tables.turns.get(turn_id) for turn_id in turn_ids]
            return [
                SettledTurn(turn=row.record(), outcome=Outcome.model_validate_json(row.outcome))
                for row in rows
                if row is not None and row.outcome is not None
            ]

    def events(self, turn_id: TurnId, *, after: int = 0, limit: int = 500) -> list[TurnEvent]:
        """As `Ledger.events`."""
        with self.tables.lock:
            row = self.tables.turns.get(turn_id)
            texts = row.events[max(after, 0) :][:limit] if row else []
            return [TurnEvent.model_validate_json(text) for text in texts]

    @contextmanager
    def listen(self) -> Generator[MemoryListener]:
        """As `Ledger.listen`."""
        listener = MemoryListener()
        with self.tables.lock:
            self.tables.listeners.append(listener)
        try:
            yield listener
        finally:
            with self.tables.lock:
                self.tables.listeners.remove(listener)

    def interrupted(self, session: SessionKey) -> TurnRequest | None:
        """As `Ledger.interrupted`."""
        with self.tables.lock:
            ended: list[tuple[datetime, int, TurnId]] = [
                (row.settled_at, row.seq, row.turn_id)
                for row in self.tables.of_session(session)
                if row.settled_at is not None
            ]
            if not ended:
                return None
            row = self.tables.turns[max(ended)[2]]
            if not was_interrupted(row):
                return None
            return row.read_request().model_copy(update={"run_id": row.run_id})

    def lock_wait(self, session: SessionKey) -> timedelta | None:
        """As `Ledger.lock_wait`."""
        with self.tables.lock:
            row = self.tables.sessions.get(session)
            if row is None or row.lock_expires_at is None:
                return None
            left = row.lock_expires_at - self.tables.now()
            return left if left > timedelta(0) else None
