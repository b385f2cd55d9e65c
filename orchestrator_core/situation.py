"""One turn in its surroundings, and what is to be said of it in more than one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from turnchain.orchestrator_core.contracts import Position, Stage, Surroundings, TurnRecord
from turnchain.orchestrator_core.environment import Policy
from turnchain.orchestrator_core.standing import (
    Obstacle,
    Standing,
    is_held,
    is_stuck,
    obstacle,
    standing_of,
)
from turnchain.orchestrator_core.sweep import SweepPolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The numbers that the workers run with, as far as they decide when a turn moves."""

    policy: Policy
    sweep: SweepPolicy
    queues: Mapping[Stage, str]
    """The queue of every stage but done."""


@dataclass(frozen=True, slots=True)
class Situation:
    """Where one turn stands, among what surrounds it, under the numbers that the workers run with."""

    position: Position
    around: Surroundings
    rules: Rules

    @property
    def turn(self) -> TurnRecord:
        return self.position.turn

    @property
    def standing(self) -> Standing:
        return standing_of(self.turn, self.around.now)

    @property
    def is_held(self) -> bool:
        return is_held(self.turn, self.position.woken_at, self.around)

    @property
    def is_stuck(self) -> bool:
        return is_stuck(self.turn, self.position.woken_at, self.around, self.rules.queues)

    def at(self, when: datetime | None) -> str:
        return "an unknown time" if when is None else told(when, self.around.now)

    def obstacle(self) -> str | None:
        """What keeps everybody from going on with the turn, with the way out."""
        found = obstacle(self.turn, self.around, self.rules.queues)
        if found is None:
            return None
        if found is Obstacle.NO_WORKER:
            last = self.around.last_heartbeat_at
            since = f"has been alive since {self.at(last)}" if last else "has ever been alive"
            return f"no worker {since}, so start one"
        if found is Obstacle.DRAINING:
            return "all live workers are going away, so start another one"
        stage, name = self.turn.stage, self.turn.session.orchestrator_name
        queue = self.rules.queues[stage]
        if found is Obstacle.NO_READER:
            return f"no live worker reads queue {queue!r} for {stage}, so start one with -Q {queue}"
        return (
            f"no live worker that reads queue {queue!r} serves orchestrator {name!r}, so start one "
            "whose TURNCHAIN_ORCHESTRATORS names it"
        )

    def sweep(self, does: str) -> str:
        """What the next sweep does, by whichever live process, or why none can help."""
        blocked = self.obstacle()
        if blocked:
            return f"nobody goes on with it: {blocked}"
        due = self.around.swept_at and self.around.swept_at + self.rules.sweep.interval
        when = f"at {self.at(due)}" if due and due > self.around.now else "now"
        return f"the next sweep, due {when}, {does}"

    def sign_of_life(self) -> str:
        """When the engine that has the turn was last heard of."""
        last = self.position.woken_at or self.turn.accepted_at
        return f"which gave its last sign of life at {self.at(last)}"


def next_rewake(position: Position, sweep: SweepPolicy) -> datetime | None:
    """From when on a sweep publishes a ready turn again; None for at once."""
    if position.woken_at is None:
        return None
    wait = sweep.rewake_first * 2 ** min(position.wakes, 20)
    return position.woken_at + min(wait, sweep.rewake_longest)


def told(at: datetime, now: datetime) -> str:
    """An instant to the second, and how far from now it is."""
    return f"{at:%Y-%m-%dT%H:%M:%SZ} ({away(at, now)})"


def away(at: datetime, now: datetime) -> str:
    """How far an instant is from now."""
    left = at - now
    return f"in {_span(left)}" if left > timedelta(0) else f"{_span(-left)} ago"


def _span(duration: timedelta) -> str:
    seconds = round(duration.total_seconds())
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds // length} {unit}"
    return f"{seconds} s"
