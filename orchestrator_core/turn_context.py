"""What a stage is given, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from turnchain.orchestrator_core.contracts import (
    Claim,
    NewEvent,
    Outcome,
    SessionKey,
    Stage,
    TurnWork,
)
from turnchain.orchestrator_core.definition import Orchestrator
from turnchain.orchestrator_core.ports import Watch


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnContext:
    """One turn inside one stage: the claim, what earlier stages found out, what to commit with the hand-over."""

    claim: Claim
    definition: Orchestrator
    signature: str
    watch: Watch
    work: TurnWork
    events: tuple[NewEvent, ...] = ()

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Park:
    """The turn must wait, without a worker: ready again at `stage` after `wait`."""

    reason: str
    wait: timedelta
    stage: Stage
    work: TurnWork
