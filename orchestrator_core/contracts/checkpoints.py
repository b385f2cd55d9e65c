"""What a settled turn leaves behind."""

from __future__ import annotations

from datetime import datetime

from turnchain.orchestrator_core.contracts.base import JSONObject, Record
from turnchain.orchestrator_core.contracts.sessions import SessionKey


class CheckpointRecord(Record):
    """The append-only row of one settled turn: the eleven fields of seed 001, and which turn wrote it. [O 10.1]

    Field names are the columns' names. The lock columns and `summarized_through` are not part of the stored row: they
    are joined from the session on reading, so that taking a lock never rewrites history. [O 0.3 X3]
    """

    orchestrator_name: str
    session_id: str
    turn_index: int
    state: JSONObject
    last_route: str | list[str] | None = None
    signature: str
    version: str | None = None
    summarized_through: int | None = None
    lock_acquired_at: datetime | None = None
    lock_expires_at: datetime | None = None
    saved_at: datetime | None = None
    """Set by the store's clock."""
    turn_id: str
    run_id: str
    fence: int
    turn_snapshot: JSONObject
    """Input, decision, results and state of the turn, for `report.turns`. [O 0.3 X6]"""

    @property
    def session(self) -> SessionKey:
        """The session this row belongs to."""
        return SessionKey(orchestrator_name=self.orchestrator_name, session_id=self.session_id)
