"""The machine's clock and its random numbers, behind the core's ports."""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime, timedelta

from turnchain.orchestrator_core.contracts import TurnId

# Leases run on while a machine sleeps, so the local deadline must, too: CLOCK_BOOTTIME where there is one. [DESIGN 6]
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """Instants and durations of this machine."""

    def now(self) -> datetime:
        """Aware UTC."""
        return datetime.now(UTC)

    def elapsed(self) -> timedelta:
        """Grows steadily, also while the machine sleeps."""
        return timedelta(seconds=time.clock_gettime(_STEADY))


def new_turn_id() -> TurnId:
    """A random UUID."""
    return TurnId(str(uuid.uuid4()))
