"""The processes that run turns, as the ledger knows them."""

from __future__ import annotations

from datetime import datetime

from pydantic import Field

from turnchain.orchestrator_core.contracts.base import Record


class ProcessRecord(Record):
    """One pool process's heartbeat. Capacity is the sum of the live ones' slots. [DESIGN 5, Admit]"""

    process_id: str
    """`host:family:pid`; a claim's `lease_owner` starts with it."""
    slots: int
    queues: tuple[str, ...] = ()
    signatures: dict[str, str] = Field(default_factory=dict[str, str])
    """Orchestrator name to signature, of what this process serves."""
    draining: bool = False
    heartbeat_at: datetime | None = None
    """Set by the store's clock."""
