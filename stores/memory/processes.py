"""The processes that run turns: heartbeats, slots, and what they serve."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from turnchain.orchestrator_core.contracts import ProcessRecord
from turnchain.stores.memory.base import Part

FRESH: Final = timedelta(seconds=10)
"""A process beats every two seconds; one silent for five rounds no longer counts."""


def slots_of(process: ProcessRecord, now: datetime) -> int:
    """The slots that count. A heartbeat from before a step of the clock backward is not fresh."""
    if process.draining or process.heartbeat_at is None:
        return 0
    return process.slots if timedelta(0) <= now - process.heartbeat_at < FRESH else 0


class Processes(Part):
    """Who is there."""

    def beat(self, process: ProcessRecord) -> None:
        """As `Ledger.beat`."""
        with self.tables.lock:
            beaten = process.model_copy(update={"heartbeat_at": self.tables.now()}, deep=True)
            self.tables.processes[process.process_id] = beaten
            self.tables.announced.update(process.signatures)

    def forget(self, process_id: str) -> None:
        """As `Ledger.forget`. What it announced stays known."""
        with self.tables.lock:
            self.tables.processes.pop(process_id, None)
