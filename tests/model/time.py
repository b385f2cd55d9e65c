"""The model's two clocks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


class Time:
    """Time passes for all clocks alike; a step moves only the database's."""

    def __init__(self) -> None:
        self._store = datetime(2026, 1, 1, tzinfo=UTC)
        self._elapsed = timedelta(0)
        self.steps = 0
        """How often somebody set the database's clock."""

    def passes(self, by: timedelta) -> None:
        """The world gets older."""
        self._store += by
        self._elapsed += by

    def is_set(self, by: timedelta) -> None:
        """Somebody sets the database's clock."""
        self._store += by
        self.steps += 1

    def store_now(self) -> datetime:
        """What the database says."""
        return self._store

    def now(self) -> datetime:
        """`Clock.now`: a process's wall clock, which nothing may depend on."""
        return datetime(1999, 1, 1, tzinfo=UTC)

    def elapsed(self) -> timedelta:
        """`Clock.elapsed`."""
        return self._elapsed
