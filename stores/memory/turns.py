"""A turn's row, and the ways in which it moves. Callers hold the tables' lock."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from turnchain.orchestrator_core.contracts import (
    Claim,
    NewEvent,
    Outcome,
    Owner,
    SessionKey,
    Stage,
    TurnEvent,
    TurnId,
    TurnRecord,
    TurnRequest,
    TurnStatus,
    TurnWork,
    Wake,
)


@dataclass(slots=True)
class TurnRow:
    """One turn: the fields of `TurnRecord`, and the content that Postgres keeps in sibling rows."""

    turn_id: TurnId
    seq: int
    session: SessionKey
    owner: Owner
    run_id: str
    runner: Literal["engine", "celery"]
    priority: int
    deadline: datetime | None
    accepted_at: datetime
    idempotency_key: str | None
    request_hash: str
    request: str
    status: TurnStatus = TurnStatus.QUEUED
    stage: Stage = Stage.LOAD
    fence: int = 0
    attempts: int = 0
    takeovers: int = 0
    lease_owner: str | None = None
    lease_expires_at: datetime | None = None
    ready_at: datetime | None = None
    parked: str | None = None
    turn_index: int | None = None
    cancel_requested_at: datetime | None = None
    admitted_at: datetime | None = None
    settled_at: datetime | None = None
    wakes: int = 0
    """How often a sweep has published the turn since it became ready."""
    woken_at: datetime | None = None
    work: str | None = None
    outcome: str | None = None
    events: list[str] = field(default_factory=list[str])

    @property
    def wake(self) -> Wake:
        """What to publish for the turn where it stands."""
        return Wake(turn_id=self.turn_id, stage=self.stage, fence=self.fence)

    def record(self) -> TurnRecord:
        """The row as the ports show it."""
        return TurnRecord.model_validate(
            {name: getattr(self, name) for name in TurnRecord.model_fields}
        )

    def read_request(self) -> TurnRequest:
        """A fresh copy of what was asked."""
        return TurnRequest.model_validate_json(self.request)

    def read_work(self) -> TurnWork:
        """A fresh copy of what the stages have found out."""
        return TurnWork.model_validate_json(self.work) if self.work else TurnWork()

    def is_held_by(self, claim: Claim) -> bool:
        """Whether the claim still is the right to run the stage: what every write is guarded by."""
        return self.stage is claim.turn.stage and self.is_owned_by(claim)

    def is_owned_by(self, claim: Claim) -> bool:
        """Whether the claim still is the right to the turn, at whatever stage."""
        return (self.fence, self.lease_owner) == (claim.turn.fence, claim.lease_owner)

    def is_ready(self, now: datetime) -> bool:
        """Whether its message should be in the broker. Only a parked turn waits for an instant."""
        if self.stage is Stage.DONE or self.status is TurnStatus.QUEUED or self.lease_owner:
            return False
        return self.parked is None or (self.ready_at is not None and self.ready_at <= now)

    def is_in_flight(self, now: datetime) -> bool:
        """Whether the turn takes a slot: owned or ready, not parked."""
        return self.lease_owner is not None or self.is_ready(now)

    def is_expired(self, now: datetime) -> bool:
        """Whether an owner let its lease run out. Without an owner nothing expires [DESIGN 5]."""
        return self.lease_expires_at is not None and self.lease_expires_at <= now

    def is_stopped(self, now: datetime) -> bool:
        """Whether somebody cancelled it, or its deadline has passed."""
        late = self.deadline is not None and self.deadline <= now
        return self.cancel_requested_at is not None or late

    def add_event(self, event: NewEvent, now: datetime) -> None:
        """Append the event in the next place."""
        placed = TurnEvent(
            type=event.type,
            payload=event.payload,
            turn_id=self.turn_id,
            seq=len(self.events) + 1,
            at=now,
        )
        self.events.append(placed.model_dump_json())

    def make_ready(self, now: datetime) -> None:
        """Without an owner, for anybody to claim."""
        self.release()
        self.ready_at, self.woken_at = now, now

    def release(self) -> None:
        """Without an owner, not ready either."""
        self.lease_owner, self.lease_expires_at = None, None
        self.ready_at, self.parked = None, None
        self.wakes, self.woken_at = 0, None

    def store_outcome(self, outcome: Outcome, now: datetime) -> None:
        """The final status and the outcome, whose state is the checkpoint's business."""
        self.status, self.settled_at = outcome.status, now
        self.outcome = outcome.model_copy(update={"state": None}).model_dump_json()
