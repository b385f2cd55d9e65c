"""What the memory driver stores: one set of tables behind one lock.

Content is kept as JSON text, as Postgres keeps it: reading it makes a copy, and what does not
survive JSON here would not survive it there. [O 15.2 G24]
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from threading import RLock
from typing import TYPE_CHECKING

from turnchain.orchestrator_core.contracts import (
    Owner,
    ProcessRecord,
    SessionKey,
    StepRecord,
    TurnId,
)

if TYPE_CHECKING:
    from turnchain.stores.memory.listening import MemoryListener
    from turnchain.stores.memory.turns import TurnRow

Now = Callable[[], datetime]


def system_now() -> datetime:
    """The system's clock: here it stands for the clock of a database server."""
    return datetime.now(UTC)  # noqa: TID251 - a store's time is its own [O 15.2 G27]


@dataclass(slots=True)
class SessionRow:
    """A conversation that has begun: made when its first `load` hands over."""

    owner: Owner
    created_at: datetime = field(default_factory=system_now)
    head: int = -1
    """Index of the last settled turn."""
    summarized_through: int | None = None
    lock_acquired_at: datetime | None = None
    lock_expires_at: datetime | None = None
    """Until when a compaction holds the session at most."""


@dataclass(slots=True)
class RunRow:
    """A run in flight: its head, and one text an iteration."""

    head: str
    iterations: dict[int, str] = field(default_factory=dict[int, str])


@dataclass(slots=True)
class Tables:
    """Everything stored. Whoever reads or writes holds `lock`."""

    now: Now
    lock: RLock = field(default_factory=RLock)
    sessions: dict[SessionKey, SessionRow] = field(default_factory=dict[SessionKey, SessionRow])
    turns: dict[TurnId, TurnRow] = field(default_factory=dict[TurnId, "TurnRow"])
    """In order of acceptance."""
    by_session: dict[SessionKey, list[TurnRow]] = field(
        default_factory=dict[SessionKey, "list[TurnRow]"]
    )
    unfinished: dict[TurnId, TurnRow] = field(default_factory=dict[TurnId, "TurnRow"])
    """The turns whose stage is not `done`, in order of acceptance: what the hot queries read."""
    steps: dict[tuple[str, str], StepRecord] = field(
        default_factory=dict[tuple[str, str], StepRecord]
    )
    """By run id and effect key."""
    processes: dict[str, ProcessRecord] = field(default_factory=dict[str, ProcessRecord])
    announced: set[str] = field(default_factory=set[str])
    """Orchestrators that any process has ever served."""
    swept_at: datetime | None = None
    checkpoints: dict[SessionKey, dict[int, str]] = field(
        default_factory=dict[SessionKey, dict[int, str]]
    )
    runs: dict[str, RunRow] = field(default_factory=dict[str, RunRow])
    listeners: list[MemoryListener] = field(default_factory=list["MemoryListener"])

    def of_session(self, session: SessionKey) -> list[TurnRow]:
        """The session's turns, in order of acceptance."""
        return self.by_session.get(session, [])

    def head(self, session: SessionKey) -> int:
        """Index of the session's last settled turn, -1 before any."""
        row = self.sessions.get(session)
        return row.head if row else -1
