"""What a stage is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from turnchain.orchestrator_core.contracts import (
    CheckpointRecord,
    Claim,
    NewEvent,
    Outcome,
    SessionKey,
    Stage,
    SupervisorRun,
    TurnWork,
)
from turnchain.orchestrator_core.definition import Orchestrator
from turnchain.orchestrator_core.ports import Ledger, Unit, Watch

Write = Callable[[Unit], None]
"""Adds to a unit what was put off."""


def nowhere(stage: Stage) -> bool:
    """No stage is called in place: each is handed over."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Deferred:
    """What a process that goes on in place has not written yet: the next unit does. [ADR 0016]

    Until then the ledger has the turn where it was; a crash repeats from there what is safe to repeat.
    """

    claim: Claim
    """The turn as the ledger has it."""
    writes: tuple[Write, ...]
    snapshot: Write | None = None
    """The last save of a run that is over: of no use to a turn that settles in the same transaction."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TurnContext:
    """One turn inside one stage: the claim, what earlier stages found out, what to commit with the hand-over."""

    claim: Claim
    definition: Orchestrator
    signature: str
    watch: Watch
    work: TurnWork
    events: tuple[NewEvent, ...] = ()
    goes_on: Callable[[Stage], bool] = nowhere
    """Whether whoever runs this stage calls that one in place, under the same claim."""
    deferred: Deferred | None = None
    head: tuple[CheckpointRecord | None, ...] = ()
    """The session's latest checkpoint, where this process has read it under this claim; empty where it has not."""
    run: SupervisorRun | None = None
    """The turn's run, where this process has it."""

    def __repr__(self) -> str:
        # Error trackers keep the local variables of frames; what a person said is in here. [DESIGN 1.6]
        turn = self.claim.turn
        return f"TurnContext({turn.turn_id}, {turn.stage}, fence {turn.fence})"

    @property
    def session(self) -> SessionKey:
        """The session of the turn."""
        return self.claim.turn.session

    def found(self, **changes: Any) -> TurnContext:
        """With these fields of `work` set."""
        return replace(self, work=self.work.model_copy(update=changes))

    def saying(self, event_type: str, **payload: Any) -> TurnContext:
        """With one more event. Every payload names the session; the turn is the event's own key. [O 9.1]"""
        event = NewEvent(type=event_type, payload={"sessionId": self.session.session_id, **payload})
        return replace(self, events=(*self.events, event))

    def decided(self, outcome: Outcome) -> TurnContext:
        """With the turn's outcome, which sends it to `persist` next."""
        return self.found(outcome=outcome)

    def at(self, stage: Stage) -> TurnContext:
        """At a later stage under the same claim, with nothing said there yet."""
        return replace(self, claim=self.claim.at(stage, self.work), events=())

    def deferring(self, write: Write) -> TurnContext:
        """With this left to the next unit."""
        before = self.deferred or Deferred(claim=self.claim, writes=())
        return replace(self, deferred=replace(before, writes=(*before.writes, write)))

    def beginning_anew(self) -> TurnContext:
        """With nothing put off, and the turn where the ledger has it."""
        return replace(
            self, deferred=self.deferred and Deferred(claim=self.deferred.claim, writes=())
        )

    def deferring_snapshot(self, write: Write) -> TurnContext:
        """With the save of a run that is over left to the next unit, should that not settle the turn."""
        before = self.deferred or Deferred(claim=self.claim, writes=())
        return replace(self, deferred=replace(before, snapshot=write))

    @contextmanager
    def unit(self, ledger: Ledger, *, durable: bool, settles: bool = False) -> Generator[Unit]:
        """One transaction under the turn's claim, which begins with all that was put off.

        Afterwards the ledger has the turn at its stage: go on with `written()`.

        Raises:
            LeaseLost, StopAsked, SessionOwnerError, TurnConflictError: as `Ledger.unit`; nothing was written.
        """
        deferred = self.deferred
        with ledger.unit(deferred.claim if deferred else self.claim, durable=durable) as unit:
            for write in deferred.writes if deferred else ():
                write(unit)
            if deferred and deferred.snapshot and not settles:
                deferred.snapshot(unit)
            yield unit

    def written(self) -> TurnContext:
        """After a unit, with nothing put off."""
        return replace(self, deferred=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Park:
    """The turn must wait, without a worker: ready again at `stage` after `wait`."""

    reason: str
    wait: timedelta
    stage: Stage
    work: TurnWork
