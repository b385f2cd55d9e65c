"""Whether this process, or the pool it belongs to, is going away."""

from __future__ import annotations

import multiprocessing
from datetime import timedelta

from turnchain.orchestrator_core.ports import Clock


class Draining:
    """Set once, in the main process, at SIGTERM; seen by every child that was forked from it.

    Make it before the fork: Celery signals a shutdown in the parent only.
    """

    def __init__(self, clock: Clock, grace: timedelta) -> None:
        self._clock = clock
        self._grace = grace
        self._asked = multiprocessing.Event()
        self._since = multiprocessing.Value("d", 0.0)

    def ask(self) -> None:
        """From now on turns are handed back."""
        if not self._asked.is_set():
            self._since.value = self._clock.elapsed().total_seconds()
            self._asked.set()

    def wait(self, timeout: timedelta) -> bool:
        """Wait until asked, at most so long."""
        return self._asked.wait(timeout.total_seconds())

    @property
    def asked(self) -> bool:
        """Whether turns are to be handed back at their next boundary."""
        return self._asked.is_set()

    @property
    def grace_is_over(self) -> bool:
        """Whether calls of user code have had their time to end."""
        return (
            self.asked
            and self._clock.elapsed() - timedelta(seconds=self._since.value) >= self._grace
        )
