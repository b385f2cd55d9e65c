"""What an operator asks the ledger, and what it answers: where turns stand, and what is around them.

Ids, instants, kinds and codes only: nothing here can hold what a person wrote. [DESIGN 1.6]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from turnchain.orchestrator_core.contracts.processes import ProcessRecord
from turnchain.orchestrator_core.contracts.sessions import Owner, SessionKey
from turnchain.orchestrator_core.contracts.turns import Stage, TurnRecord, TurnStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFilter:
    """Which turns to list; what is None leaves them all in."""

    orchestrator_name: str | None = None
    session_id: str | None = None
    status: TurnStatus | None = None
    before: int | None = None
    """Only turns accepted before the one with this `seq`: the next page."""
    stuck_on: Mapping[Stage, str] | None = None
    """Only turns that nobody will go on with, where these are the stages' queues. [standing.is_stuck]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionFilter:
    """Which sessions to list; what is None leaves them all in."""

    orchestrator_name: str | None = None
    session_id: str | None = None
    before: datetime | None = None
    """Only sessions that began before this instant: the next page."""


@dataclass(frozen=True, slots=True)
class TurnPage:
    """Some turns, the last accepted first."""

    now: datetime
    """By the store's clock."""
    turns: tuple[TurnRecord, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """A session that has begun, and its last turn."""

    session: SessionKey
    owner: Owner
    created_at: datetime
    """When its first turn came through `load`."""
    head_turn_index: int
    """Index of the last turn that settled well, -1 before any."""
    queued: int
    """Turns that wait in it; counted to `COUNT_LIMIT`."""
    last_turn: TurnRecord | None
    """None where its turns were deleted by hand."""


@dataclass(frozen=True, slots=True)
class SessionPage:
    """Some sessions, the last begun first. May be longer than asked for, where several began at one instant."""

    now: datetime
    """By the store's clock."""
    sessions: tuple[SessionSummary, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Where one turn stands, and what was last saved of it."""

    turn: TurnRecord
    wakes: int
    """How often the sweep has published the turn since it became ready."""
    woken_at: datetime | None
    """When its message was last due to be published; for an engine's turn, its engine's last sign of life."""
    last_event: str | None
    """Type of its last event."""
    last_event_at: datetime | None
    iterations: int
    """Settled iterations of the run in flight, where its snapshot is kept beside the ledger."""
    open_steps: int
    """Steps with an intent and no result yet."""
    error_code: str | None
    """Of a turn that ended with an error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a turn's next move depends on beside itself."""

    now: datetime
    """By the store's clock."""
    swept_at: datetime | None
    """When the last sweep began, of whichever process."""
    processes: tuple[ProcessRecord, ...]
    """Those whose heartbeat is fresh, by id."""
    last_heartbeat_at: datetime | None
    """Of any process, fresh or not."""
    in_flight: int
    """Turns that take a slot: owned or ready, of runner `celery`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFacts:
    """All that it takes to say why a turn does not move, read at one instant."""

    position: Position
    before: Position | None
    """For a queued turn: the running or paused turn of its session, else the first queued before it."""
    queued_before: int
    """Queued turns of its session accepted before it; counted to `COUNT_LIMIT`."""
    preferred: int
    """For a queued turn: how many of its tenant's are to be admitted before it; counted to `COUNT_LIMIT`."""
    around: Surroundings


COUNT_LIMIT = 1000
"""Where counting ends: an operator learns nothing from a larger number, and the ledger has to count it."""
