"""The supervisor's state inside an unsettled turn. `SupervisorRun` *is* the snapshot: resume has no path of its own."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from turnchain.orchestrator_core.contracts.base import JSON, JSONObject, Record
from turnchain.orchestrator_core.contracts.reports import Usage
from turnchain.orchestrator_core.contracts.sessions import SessionKey

DecisionSource = Literal["route", "router", "initialAgent"]
"""`route` also stands for a reassignment by `evaluate` and for an intent's `next`. [O 3.4.2]"""


class Decision(Record):
    """Which intent an iteration dispatches and who said so; `next` may be END. [O 3.4]"""

    source: DecisionSource
    next: str
    reasoning: str | None = None


class BranchRecord(Record):
    """What one dispatched intent did. [O 3.7.3]"""

    intent: str
    output: JSON = None
    error: JSONObject | None = None
    usage: Usage = Usage()
    duration: float = 0.0


class Verdict(Record):
    """What `evaluate` says of an iteration. Nothing set means go on. [O 3.10]"""

    satisfied: bool = False
    reassign_to: str | None = None
    feedback: str | None = None


class IterationSnapshot(Record):
    """One settled iteration: never changed, never run again. [O 3.14.5]"""

    iteration: int
    decision: Decision
    result: dict[str, BranchRecord] = Field(default_factory=dict)
    state: JSONObject
    """After the merge."""
    verdict: Verdict | None = None
    usage: Usage = Usage()
    duration: float = 0.0


class Carry(Record):
    """What one iteration leaves for the next to decide by; lost, a resumed run would route differently. [O 15.2 G9]"""

    next: str | None = None
    reassign_to: str | None = None
    feedback: str | None = None


class SupervisorRun(Record):
    """A run of the supervisor: the head row of a snapshot, and the settled iterations.

    Stored as one head row and one row an iteration, never as the whole list again.
    """

    schema_version: int = 1
    run_id: str
    session: SessionKey
    turn_index: int
    signature: str
    version: str | None = None
    input: JSON
    seed_state: JSONObject
    """The session's state with the call's patch merged over it: what iteration 0 sees."""
    max_iterations: int
    iterate: bool
    carry: Carry = Carry()
    terminated_by: (
        Literal["route", "evaluate", "dispatch", "max-iterations", "error", "cancelled"] | None
    ) = None
    error: JSONObject | None = None
    open: OpenIteration | None = None
    """The iteration in flight. Stored once its branch has settled, so that a crash while `evaluate` or `next` is asked
    does not dispatch the intent again; before that, a crash repeats it from its beginning. [O 15.5 I7]"""
    iterations: tuple[IterationSnapshot, ...] = Field(default=(), exclude=True)

    @property
    def iteration(self) -> int:
        """Index of the last settled iteration, -1 before any."""
        return len(self.iterations) - 1

    @property
    def state(self) -> JSONObject:
        """The accumulated state: of the last settled iteration, or what the run started with."""
        return self.iterations[-1].state if self.iterations else self.seed_state

    @property
    def usage(self) -> Usage:
        """Usage of all settled iterations, those before a resume included."""
        return sum((one.usage for one in self.iterations), Usage())

    def evolve(self, **changes: Any) -> SupervisorRun:
        """A copy with these fields replaced."""
        return self.model_copy(update=changes)


class OpenIteration(Record):
    """How far the iteration in flight has come."""

    decision: Decision
    branch: BranchRecord | None = None
    state: JSONObject | None = None
    verdict: Verdict | None = None
    evaluated: bool = False
    """Whether `evaluate` was asked, or there is none."""


SupervisorRun.model_rebuild()
