"""Checkpoints in memory: one text a settled turn."""

from __future__ import annotations

from turnchain.orchestrator_core.contracts import CheckpointRecord, SessionKey
from turnchain.orchestrator_core.errors import TurnConflictError
from turnchain.orchestrator_core.ports import Unit
from turnchain.stores.memory.tables import Tables
from turnchain.stores.memory.turns import TurnRow
from turnchain.stores.memory.unit import MemoryUnit

_JOINED = {"summarized_through", "lock_acquired_at", "lock_expires_at"}
"""Not stored in the record: read from the session. [O 0.3 X3]"""


class MemoryCheckpoints:
    """`CheckpointStore` over the ledger's tables."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def append(self, record: CheckpointRecord, unit: Unit) -> None:
        """As `CheckpointStore.append`; the unit must be of this driver's ledger."""
        assert isinstance(unit, MemoryUnit)  # the bundle that `connect` makes holds no other
        session, index = record.session, record.turn_index
        text = record.model_copy(update={"saved_at": None}).model_dump_json(exclude=_JOINED)

        def check() -> None:
            stored = self.tables.checkpoints.get(session, {}).get(index)
            if stored is not None and _parsed(stored).turn_id != record.turn_id:
                raise TurnConflictError(
                    f"turn {index} of session {session.session_id!r} was already settled by turn "
                    f"{_parsed(stored).turn_id!r}",
                    {
                        "turn_index": index,
                        "turn_id": _parsed(stored).turn_id,
                        "reason": "turn-conflict",
                    },
                )

        def write(_: TurnRow) -> None:
            rows = self.tables.checkpoints.setdefault(session, {})
            saved = _parsed(text).model_copy(update={"saved_at": self.tables.now()})
            rows.setdefault(index, saved.model_dump_json())

        unit.later(write, check)

    def load(self, session: SessionKey) -> CheckpointRecord | None:
        """As `CheckpointStore.load`."""
        with self.tables.lock:
            rows = self.tables.checkpoints.get(session)
            return self._read(session, rows[max(rows)]) if rows else None

    def load_range(self, session: SessionKey, *, first: int, last: int) -> list[CheckpointRecord]:
        """As `CheckpointStore.load_range`."""
        with self.tables.lock:
            rows = self.tables.checkpoints.get(session, {})
            return [
                self._read(session, rows[index]) for index in sorted(rows) if first <= index <= last
            ]

    def list(self, orchestrator_name: str, prefix: str = "") -> list[str]:
        """As `CheckpointStore.list`."""
        with self.tables.lock:
            return sorted(
                session.session_id
                for session in self.tables.checkpoints
                if session.orchestrator_name == orchestrator_name
                and session.session_id.startswith(prefix)
            )

    def prune(self, session: SessionKey, *, keep_before: int) -> None:
        """As `CheckpointStore.prune`."""
        with self.tables.lock:
            rows = self.tables.checkpoints.get(session, {})
            for index in sorted(rows)[:-1]:
                if index < keep_before:
                    del rows[index]

    def delete(self, session: SessionKey) -> None:
        """As `CheckpointStore.delete`."""
        with self.tables.lock:
            self.tables.checkpoints.pop(session, None)

    def schema(self) -> str:
        """Empty: there is nothing to apply."""
        return ""

    def _read(self, session: SessionKey, text: str) -> CheckpointRecord:
        row = self.tables.sessions.get(session)
        joined = {name: getattr(row, name) for name in _JOINED} if row else {}
        return _parsed(text).model_copy(update=joined)


def _parsed(text: str) -> CheckpointRecord:
    return CheckpointRecord.model_validate_json(text)
