"""The processes that run turns: heartbeats, slots, and what they serve."""

from __future__ import annotations

from turnchain.orchestrator_core.contracts import ProcessRecord, to_json
from turnchain.stores.postgres.base import Part


class Processes(Part):
    """Who is there."""

    def beat(self, process: ProcessRecord) -> None:
        """As `Ledger.beat`."""
        params = {
            "process_id": process.process_id,
            "slots": process.slots,
            "queues": to_json(list(process.queues)),
            "signatures": to_json(process.signatures),
            "draining": process.draining,
        }
        self._connections.run_safely("beat", params)

    def forget(self, process_id: str) -> None:
        """As `Ledger.forget`. What it announced stays known."""
        self._connections.run_safely("forget", {"process_id": process_id})
