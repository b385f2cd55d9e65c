"""What a turn cost and how it went."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from turnchain.orchestrator_core.contracts.base import JSON, JSONObject, Record
from turnchain.orchestrator_core.contracts.turns import TurnStatus
from turnchain.orchestrator_core.errors import TurnchainError, from_record


class Usage(Record):
    """Tokens, rolled up from the calls that reported any. [O 2.9.7]"""

    input: int = 0
    output: int = 0
    total: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            total=self.total + other.total,
        )


class ReportNode(Record):
    """One node of a turn's report tree: the orchestrator, its supervisor, or a dispatched intent. [O 12.8]"""

    run_id: str
    root_run_id: str
    parent_run_id: str | None = None
    type: Literal["orchestrator", "supervisor", "agent", "callback"]
    name: str
    session_id: str
    status: str
    error: JSONObject | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    duration: float = 0.0
    """Seconds of work, waiting left out."""
    usage: Usage = Usage()
    children: tuple[ReportNode, ...] = ()


class TurnReport(ReportNode):
    """The root of the tree. `children` holds the current turn's supervisor only. [O 2.9.4]"""

    report_schema_version: int = 1
    version: str | None = None
    turn_index: int
    signature: str
    iterations: int = 0
    """Settled iterations, a final END decision included. [O 3.3.3]"""
    terminated_by: str | None = None
    attempts: int = 0
    """How often the turn was taken over from a dead worker."""


class TurnResult(Record):
    """What a caller gets for a turn. Reading it never raises for what went wrong inside the turn. [O 2.10]"""

    turn_id: str
    session_id: str
    turn_index: int | None
    status: TurnStatus
    data: JSON = None
    error_record: JSONObject | None = None
    usage: Usage = Usage()
    report: TurnReport | None = None
    """None where the turn ended before a stage ran, for example cancelled while queued."""

    @property
    def ok(self) -> bool:
        """Whether the turn settled well; the session then waits for its next input."""
        return self.status is TurnStatus.AWAITING_INPUT

    @property
    def error(self) -> TurnchainError | None:
        """What went wrong, rebuilt with its class, message and causes."""
        return from_record(self.error_record) if self.error_record else None

    def raise_for_error(self) -> TurnResult:
        """Return self, or raise what went wrong.

        Raises:
            TurnchainError: the class that the error's code stands for.
        """
        if self.error:
            raise self.error
        return self
