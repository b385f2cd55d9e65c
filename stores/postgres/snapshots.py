"""Runs in flight in Postgres: a head row and one row an iteration."""

from __future__ import annotations

import builtins
from typing import Final

from turnchain.orchestrator_core.contracts import IterationSnapshot, SupervisorRun
from turnchain.orchestrator_core.ports import Unit
from turnchain.stores.postgres.connection import Connections
from turnchain.stores.postgres.statements import schema
from turnchain.stores.postgres.unit import own_unit

_SEED: Final = {"input", "seed_state"}
"""What never changes within a run and may be large: in a column that no later save rewrites."""


class PostgresSnapshots:
    """`SnapshotStore` in the ledger's database, so that an iteration is one transaction."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def load(self, run_id: str) -> SupervisorRun | None:
        """As `SnapshotStore.load`."""
        rows = self._connections.run_safely("load_snapshot", {"run_id": run_id})
        if not rows:
            return None
        settled = tuple(IterationSnapshot.model_validate(one) for one in rows[0]["iterations"])
        return SupervisorRun.model_validate(rows[0]["head"]).evolve(iterations=settled)

    def save(self, run: SupervisorRun, settled: IterationSnapshot | None, unit: Unit) -> None:
        """As `SnapshotStore.save`."""
        own = own_unit(unit)
        head = {
            "run_id": run.run_id,
            "fence": own.claim.turn.fence,
            "head": run.model_dump_json(exclude=_SEED),
            "seed": run.model_dump_json(include=_SEED),
        }
        own.later("save_run", head)
        if settled is not None:
            iteration = {
                "run_id": run.run_id,
                "iteration": settled.iteration,
                "snapshot": settled.model_dump_json(),
            }
            own.later("save_iteration", iteration)

    def delete(self, run_id: str, unit: Unit) -> None:
        """As `SnapshotStore.delete`."""
        own_unit(unit).later("delete_run", {"run_id": run_id})

    def list(self, prefix: str = "") -> builtins.list[str]:
        """As `SnapshotStore.list`."""
        rows = self._connections.run_safely("list_snapshots", {"prefix": prefix})
        return [row["run_id"] for row in rows]

    def schema(self) -> str:
        """As `SnapshotStore.schema`: the whole driver's tables, which belong together."""
        return schema()
