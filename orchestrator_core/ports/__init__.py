"""What the core needs of the world, as protocols."""

from __future__ import annotations

from turnchain.orchestrator_core.ports.inspection import Inspection
from turnchain.orchestrator_core.ports.runtime import (
    AfterCommit,
    Clock,
    Leases,
    NewId,
    Publisher,
    Watch,
)
from turnchain.orchestrator_core.ports.stores import (
    ENGINE_SILENCE,
    CancelReceipt,
    CheckpointStore,
    Ledger,
    Listener,
    SnapshotStore,
    Unit,
)

__all__ = [
    "ENGINE_SILENCE",
    "AfterCommit",
    "CancelReceipt",
    "CheckpointStore",
    "Clock",
    "Inspection",
    "Leases",
    "Ledger",
    "Listener",
    "NewId",
    "Publisher",
    "SnapshotStore",
    "Unit",
    "Watch",
]
