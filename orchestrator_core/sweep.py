"""One pass over the turns that nobody looks after; beat's `turn.drain` and all housekeeping call it. [DESIGN 6]"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from turnchain.orchestrator_core.contracts import Wake
from turnchain.orchestrator_core.environment import Policy
from turnchain.orchestrator_core.ports import Ledger


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPolicy:
    """The sweep's own numbers."""

    interval: timedelta = timedelta(seconds=5)
    """Over all processes together, not each."""
    rewake_first: timedelta = timedelta(seconds=5)
    rewake_longest: timedelta = timedelta(minutes=5)


def sweep(ledger: Ledger, policy: Policy, numbers: SweepPolicy) -> list[Wake] | None:
    """Find what is stuck and return what to publish; None where another process swept within the interval.

    Ten processes that all call this, or none but beat, make no difference. Each turn is its own transaction, so that
    dying half-way leaves the rest to the next pass.
    """
    if not ledger.begin_sweep(numbers.interval, policy.lease):
        return None
    wakes = ledger.take_over_expired(policy.max_attempts)
    taken = {wake.turn_id for wake in wakes}
    wakes += [
        wake
        for wake in ledger.rewake(numbers.rewake_first, numbers.rewake_longest)
        if wake.turn_id not in taken
    ]
    ledger.expire_deadlines()
    return wakes + ledger.admit(policy.max_in_flight)
