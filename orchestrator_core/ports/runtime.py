"""What the core needs of the process it runs in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from turnchain.orchestrator_core.contracts import Claim, TurnId, Wake


class Clock(Protocol):
    """Instants for reports, durations for budgets. Never for leases or order: those are the store's. [O G27]"""

    def now(self) -> datetime:
        """Aware UTC."""
        ...

    def elapsed(self) -> timedelta:
        """Grows steadily, also while the machine sleeps (CLOCK_BOOTTIME); only differences mean something."""
        ...


class Watch(Protocol):
    """What one running claim can ask of the process that keeps its lease."""

    def check(self) -> None:
        """At an iteration boundary: return, or say why the stage must stop now.

        Raises:
            LeaseLost: the lease is gone, or may have run out by this process's own clock.
            CancelRequested: the turn was cancelled.
            DeadlinePassed: the turn's deadline passed.
            HandBackAsked: the process is going away.
        """
        ...

    def check_call(self) -> None:
        """Before and during a call of user code: as `check`, with some grace before a hand-back."""
        ...


class Leases(Protocol):
    """Keeps the leases of the claims that this process runs."""

    @property
    def process_id(self) -> str:
        """`host:family:pid`, with which every owner begins."""
        ...

    def new_owner(self) -> str:
        """A lease owner never used before: `process/serial`."""
        ...

    def begin(self, claim: Claim, granted: timedelta) -> Watch:
        """Renew the claim's lease from now on, until `end` or the stage's time limit.

        `granted` is `Clock.elapsed()` from before the claim was asked for: the lease runs from then at the earliest.
        """
        ...

    def go_on(self, claim: Claim) -> None:
        """The claim was kept to another stage. The time limit stays what it was at `begin`."""
        ...

    def end(self, claim: Claim) -> None:
        """Stop renewing. Calling it twice is safe."""
        ...


class Publisher(Protocol):
    """Tells workers that turns may be ready. Best effort: what is lost, the sweep publishes again."""

    def publish(self, wakes: Sequence[Wake]) -> None:
        """Send one message a wake. Never raises for an unreachable broker, and never blocks for long."""
        ...


class NewId(Protocol):
    """Mints turn ids."""

    def __call__(self) -> TurnId:
        """A random UUID of 36 characters."""
        ...


class AfterCommit(Protocol):
    """Runs something once a caller's transaction has committed."""

    def __call__(self, connection: Any, then: Callable[[], None]) -> None:
        """Run `then` now if `connection` is None, after its commit if it can tell of that, else not at all."""
        ...
