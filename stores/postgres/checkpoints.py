"""Checkpoints in Postgres: one append-only row a settled turn."""

from __future__ import annotations

import builtins

from turnchain.orchestrator_core.contracts import CheckpointRecord, SessionKey, to_json
from turnchain.orchestrator_core.ports import Unit
from turnchain.stores.postgres.connection import Connections
from turnchain.stores.postgres.rows import Row, session_params
from turnchain.stores.postgres.statements import schema
from turnchain.stores.postgres.unit import own_unit


class PostgresCheckpoints:
    """`CheckpointStore` in the ledger's database, so that persist is one transaction."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def append(self, record: CheckpointRecord, unit: Unit) -> None:
        """As `CheckpointStore.append`."""
        route = record.last_route
        params = {
            **session_params(record.session),
            "turn_index": record.turn_index,
            "state": to_json(record.state),
            "last_route": None if route is None else to_json(route),
            "signature": record.signature,
            "version": record.version,
            "turn_id": record.turn_id,
            "run_id": record.run_id,
            "fence": record.fence,
            "turn_snapshot": to_json(record.turn_snapshot),
        }
        own_unit(unit).later("append_checkpoint", params)

    def load(self, session: SessionKey) -> CheckpointRecord | None:
        """As `CheckpointStore.load`."""
        rows = self._connections.run_safely("load_checkpoint", session_params(session))
        return _record(rows[0]) if rows else None

    def load_range(
        self, session: SessionKey, *, first: int, last: int
    ) -> builtins.list[CheckpointRecord]:
        """As `CheckpointStore.load_range`."""
        params = {**session_params(session), "first": first, "last": last}
        rows = self._connections.run_safely("load_checkpoints", params)
        return [_record(row) for row in rows]

    def list(self, orchestrator_name: str, prefix: str = "") -> builtins.list[str]:
        """As `CheckpointStore.list`."""
        params = {"orchestrator_name": orchestrator_name, "prefix": prefix}
        rows = self._connections.run_safely("list_checkpoints", params)
        return [row["session_id"] for row in rows]

    def prune(self, session: SessionKey, *, keep_before: int) -> None:
        """As `CheckpointStore.prune`."""
        params = {**session_params(session), "keep_before": keep_before}
        self._connections.run_safely("prune_checkpoints", params)

    def delete(self, session: SessionKey) -> None:
        """As `CheckpointStore.delete`."""
        self._connections.run_safely("delete_checkpoints", session_params(session), durable=True)

    def schema(self) -> str:
        """As `CheckpointStore.schema`: the whole driver's tables, which belong together."""
        return schema()


def _record(row: Row) -> CheckpointRecord:
    return CheckpointRecord.model_validate({**row, "turn_id": str(row["turn_id"])})
