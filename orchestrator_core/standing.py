"""Where a turn stands, and whether anybody can go on with it. [DESIGN 5, Where a turn stands]"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum

from turnchain.orchestrator_core.contracts import (
    ProcessRecord,
    Stage,
    Surroundings,
    TurnRecord,
    TurnStatus,
)
from turnchain.orchestrator_core.ports import ENGINE_SILENCE


class Standing(StrEnum):
    """How a turn waits, or who has it."""

    QUEUED = "queued"
    """Not admitted yet."""
    READY = "ready"
    """Its message should be in the broker."""
    OWNED = "owned"
    """A process is inside its stage, or has died there."""
    PARKED = "parked"
    """Waits without an owner and without a message."""
    PAUSED = "paused"
    """Waits for somebody outside."""
    SETTLED = "settled"
    """Done; nothing is left to do."""


class Obstacle(StrEnum):
    """Why no process could go on with a turn."""

    NO_WORKER = "no-worker"
    """No process is alive."""
    DRAINING = "draining"
    """Those that are alive are going away."""
    NO_READER = "no-reader"
    """Nobody reads the queue of its stage."""
    NOT_SERVED = "not-served"
    """Nobody who reads it serves the turn's orchestrator."""


def standing_of(turn: TurnRecord, now: datetime) -> Standing:
    """Where the turn stands at that instant of the store's clock."""
    if turn.stage is Stage.DONE:
        return Standing.SETTLED
    if turn.status is TurnStatus.QUEUED:
        return Standing.QUEUED
    if turn.lease_owner is not None:
        return Standing.OWNED
    if turn.status is TurnStatus.PAUSED:
        return Standing.PAUSED
    if turn.parked is not None and (turn.ready_at is None or turn.ready_at > now):
        return Standing.PARKED
    return Standing.READY


def is_late(turn: TurnRecord, now: datetime) -> bool:
    """Whether the next sweep ends the turn because of its deadline. [Ledger.expire_deadlines]"""
    if turn.deadline is None or turn.lease_owner is not None or turn.status.is_final:
        return False
    return turn.deadline <= now and turn.stage.order < Stage.PERSIST.order


def owner_process(turn: TurnRecord) -> str | None:
    """The process in whose claim the turn is."""
    return turn.lease_owner.rpartition("/")[0] if turn.lease_owner else None


def is_held(turn: TurnRecord, woken_at: datetime | None, around: Surroundings) -> bool:
    """Whether somebody who is not known to be gone has the turn in hand."""
    if turn.lease_owner is None:
        # An engine's turn is its engine's, as long as that gives signs of life. [ADR 0006]
        silent_since = woken_at or turn.accepted_at
        return turn.runner == "engine" and silent_since > around.now - ENGINE_SILENCE
    if turn.lease_expires_at is None or turn.lease_expires_at <= around.now:
        return False
    # Engines have no heartbeat: their long lease stands for it.
    owner = owner_process(turn)
    return turn.runner == "engine" or any(each.process_id == owner for each in around.processes)


def readers(queue: str, around: Surroundings) -> list[ProcessRecord]:
    """The live processes that take turns from a queue and mean to stay."""
    staying = [each for each in around.processes if not each.draining]
    return [each for each in staying if each.slots > 0 and queue in each.queues]


def serving(
    turn: TurnRecord, around: Surroundings, queues: Mapping[Stage, str]
) -> list[ProcessRecord]:
    """The readers of its stage's queue that serve the turn's orchestrator: who could go on with it."""
    if turn.stage is Stage.DONE:
        return []
    name = turn.session.orchestrator_name
    return [each for each in readers(queues[turn.stage], around) if name in each.signatures]


def obstacle(
    turn: TurnRecord, around: Surroundings, queues: Mapping[Stage, str]
) -> Obstacle | None:
    """Why nobody could go on with the turn, were it free; None if somebody can. `queues` has every stage but done.

    What only has to be ended needs less: late turns, and those of dead engines, are any sweep's; one that was cancelled
    is ended by whoever claims it.
    """
    if all(each.draining for each in around.processes):
        return Obstacle.DRAINING if around.processes else Obstacle.NO_WORKER
    if turn.runner == "engine" or is_late(turn, around.now):
        return None
    if not readers(queues[turn.stage], around):
        return Obstacle.NO_READER
    if turn.cancel_requested_at is not None and not turn.status.is_final:
        return None
    return None if serving(turn, around, queues) else Obstacle.NOT_SERVED


def is_stuck(
    turn: TurnRecord,
    woken_at: datetime | None,
    around: Surroundings,
    queues: Mapping[Stage, str],
) -> bool:
    """Whether nobody will move the turn, whatever else happens, until an operator does something.

    By itself: a queued turn is stuck as well when the running turn of its session is. A paused one never is: it waits
    for a person.
    """
    if standing_of(turn, around.now) in (Standing.SETTLED, Standing.PAUSED):
        return False
    return not is_held(turn, woken_at, around) and obstacle(turn, around, queues) is not None


def capacity(around: Surroundings, max_in_flight: int | None) -> int:
    """How many turns may be owned or ready at once. [Ledger.admit]"""
    slots = sum(each.slots for each in around.processes if not each.draining)
    return max_in_flight or max(1, slots)
