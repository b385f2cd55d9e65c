"""What a stage task says of itself when it is through: one line of ids, kinds and numbers. [DESIGN 1.6]

Celery carries nothing but what a task returns from a pool's child to the worker's main process, and of that only the
text. So the line is made in the child, and read again where the events for Flower are sent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Final

from turnchain.orchestrator_core.contracts import Stage, TurnRecord
from turnchain.orchestrator_core.environment import Policy
from turnchain.orchestrator_core.runner import Passage


class State(StrEnum):
    """How a stage ended, other than by handing over as usual. Flower shows the word in capitals."""

    PARKED = "parked"
    """The turn waits without an owner."""
    HANDED_BACK = "handed-back"
    """The worker goes away, and gave the turn up for another one."""
    LEASE_LOST = "lease-lost"
    """The right to run went to somebody else meanwhile; nothing was written."""
    NOT_CLAIMED = "not-claimed"
    """Nothing was run: the message was late, doubled or no message of ours."""
    TAKEN_OVER = "taken-over"
    """The stage went well, for a turn whose last owner had died."""


@dataclass(frozen=True, slots=True)
class Told:
    """A line, read."""

    state: State | None = None
    """None: the stage handed over as usual."""
    detail: str = ""
    waited: timedelta | None = None
    """From accept to the first claim of `load`."""


MALFORMED: Final = f"{State.NOT_CLAIMED}: malformed"
_STATES: Final = frozenset(state.value for state in State)
_WAITED: Final = re.compile(r"waited (\d+\.\d+) s")


def tell(passage: Passage, policy: Policy) -> str | None:
    """The line about a stage; None where there is nothing to say but that it went well."""
    turn, park, refusal = passage.turn, passage.park, passage.refusal
    if turn is None or refusal:
        state = State.LEASE_LOST if turn else State.NOT_CLAIMED
        return f"{state}: {refusal.reason}" if refusal else None
    if park:
        return f"{State.PARKED}: {park.reason}, for {round(park.wait.total_seconds(), 2):g} s"
    if passage.handed_back:
        return f"{State.HANDED_BACK}: this worker goes away"
    facts = list[str]()
    if turn.attempts:
        facts.append(f"{State.TAKEN_OVER}: attempt {turn.attempts + 1} of {policy.max_attempts}")
    waited = _waited(turn, policy)
    if waited is not None:
        facts.append(f"waited {waited.total_seconds():.3f} s")
    if passage.status and turn.stage is not Stage.COMPACT:
        facts.append(passage.status.value)
    return ", ".join(facts) or None


def read(shown: str) -> Told:
    """What a line says, as Celery passes it on: the representation of what the task returned."""
    if shown == "None":
        return Told()
    word, colon, detail = shown.strip("'").partition(": ")
    if colon and word in _STATES:
        return Told(State(word), detail)
    waited = _WAITED.match(word)
    return Told(
        None, word + colon + detail, timedelta(seconds=float(waited[1])) if waited else None
    )


def _waited(turn: TurnRecord, policy: Policy) -> timedelta | None:
    """How long the turn stood accepted and unclaimed, by the ledger's clock alone. Told once, of its first claim.

    The instant of the claim is what its lease counts from.
    """
    if turn.stage is not Stage.LOAD or turn.fence or turn.lease_expires_at is None:
        return None
    return max(turn.lease_expires_at - policy.lease - turn.accepted_at, timedelta(0))
