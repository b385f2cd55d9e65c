"""What one process runs turns with."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from turnchain.orchestrator_core.invoke import Invoker
from turnchain.orchestrator_core.ports import (
    CheckpointStore,
    Clock,
    Leases,
    Ledger,
    NewId,
    SnapshotStore,
)
from turnchain.orchestrator_core.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The numbers of the protocol. [DESIGN 6]"""

    lease: timedelta = timedelta(seconds=20)
    max_attempts: int = 3
    lock_max_wait: timedelta = timedelta(seconds=5)
    """How long `lock` waits for a compaction before it goes on without. [O 5.4]"""
    no_worker_wait: timedelta = timedelta(seconds=10)
    """How long a turn is parked whose orchestrator this process does not serve."""
    admits: bool = True
    """Whether this process admits other turns when it frees work; one that cannot publish their messages must not."""
    max_in_flight: int | None = None
    """Caps turns owned or ready over all processes; None: their slots do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Ports and registry of one process. Made by a composition root, never looked up."""

    ledger: Ledger
    checkpoints: CheckpointStore
    snapshots: SnapshotStore
    registry: Registry
    clock: Clock
    leases: Leases
    invoker: Invoker
    new_id: NewId
    policy: Policy = Policy()
