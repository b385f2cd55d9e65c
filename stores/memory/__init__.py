"""The memory driver: one process, nothing durable, the same exam as Postgres.

    stores = connect()
    stores.ledger.accept(request, request_hash="…")

Every verb holds one lock from its first look to its last write, so that each is one transaction.
"""

from __future__ import annotations

from dataclasses import dataclass

from turnchain.stores.memory.checkpoints import MemoryCheckpoints
from turnchain.stores.memory.inspecting import MemoryInspection
from turnchain.stores.memory.ledger import MemoryLedger
from turnchain.stores.memory.snapshots import MemorySnapshots
from turnchain.stores.memory.tables import Now, Tables, system_now
from turnchain.stores.memory.unit import MemoryUnit

__all__ = [
    "MemoryCheckpoints",
    "MemoryInspection",
    "MemoryLedger",
    "MemorySnapshots",
    "MemoryStores",
    "MemoryUnit",
    "Now",
    "Tables",
    "connect",
]


@dataclass(frozen=True, slots=True)
class MemoryStores:
    """The three stores over one set of tables."""

    ledger: MemoryLedger
    checkpoints: MemoryCheckpoints
    snapshots: MemorySnapshots
    tables: Tables
    """What is stored, for tests that look under the ports."""

    @property
    def inspection(self) -> MemoryInspection:
        """The operator's read side of them."""
        return MemoryInspection(self.tables)

    def close(self) -> None:
        """Nothing to close; the drivers are alike."""


def connect(clock: Now | None = None) -> MemoryStores:
    """Empty stores. `clock` returns the stores' time, aware UTC; None takes the system's."""
    tables = Tables(now=clock or system_now)
    return MemoryStores(
        ledger=MemoryLedger(tables),
        checkpoints=MemoryCheckpoints(tables),
        snapshots=MemorySnapshots(tables),
        tables=tables,
    )
