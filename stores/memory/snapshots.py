"""Runs in flight in memory: a head text and one text an iteration."""

from __future__ import annotations

from turnchain.orchestrator_core.contracts import IterationSnapshot, SupervisorRun
from turnchain.orchestrator_core.ports import Unit
from turnchain.stores.memory.tables import RunRow, Tables
from turnchain.stores.memory.turns import TurnRow
from turnchain.stores.memory.unit import MemoryUnit


class MemorySnapshots:
    """`SnapshotStore` over the ledger's tables."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables

    def load(self, run_id: str) -> SupervisorRun | None:
        """As `SnapshotStore.load`."""
        with self.tables.lock:
            row = self.tables.runs.get(run_id)
            if row is None:
                return None
            settled = [
                IterationSnapshot.model_validate_json(row.iterations[key])
                for key in sorted(row.iterations)
            ]
            return SupervisorRun.model_validate_json(row.head).evolve(iterations=tuple(settled))

    def save(self, run: SupervisorRun, settled: IterationSnapshot | None, unit: Unit) -> None:
        """As `SnapshotStore.save`; the unit must be of this driver's ledger."""
        assert isinstance(unit, MemoryUnit)  # the bundle that `connect` makes holds no other
        head = run.model_dump_json()
        iteration = None if settled is None else (settled.iteration, settled.model_dump_json())

        def write(_: TurnRow) -> None:
            row = self.tables.runs.setdefault(run.run_id, RunRow(head))
            row.head = head
            if iteration is not None:
                row.iterations.setdefault(*iteration)

        unit.later(write)

    def delete(self, run_id: str, unit: Unit) -> None:
        """As `SnapshotStore.delete`."""
        assert isinstance(unit, MemoryUnit)  # as above
        unit.later(lambda _: self._delete(run_id))

    def _delete(self, run_id: str) -> None:
        self.tables.runs.pop(run_id, None)

    def list(self, prefix: str = "") -> list[str]:
        """As `SnapshotStore.list`."""
        with self.tables.lock:
            return sorted(run_id for run_id in self.tables.runs if run_id.startswith(prefix))

    def schema(self) -> str:
        """Empty: there is nothing to apply."""
        return ""
