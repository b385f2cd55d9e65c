"""Whether this process, or the pool it belongs to, is going away."""

from __future__ import annotations

import mmap
import os
import select
import struct
from datetime import timedelta

from turnchain.orchestrator_core.ports import Clock

_INSTANT = struct.Struct("d")


class Draining:
    """Set once, in the main process, at SIGTERM; seen by every child that was forked from it.

    Make it before the fork: Celery signals a shutdown in the parent only. A pipe that nobody reads from and a page of
    shared memory, for a child may be killed at any moment: the semaphores of a `multiprocessing.Event` would have the
    parent wait for that child for ever, or everybody for its lock.
    """

    def __init__(self, clock: Clock, grace: timedelta) -> None:
        self._clock = clock
        self._grace = grace
        self._readable, self._writable = os.pipe()
        self._since = mmap.mmap(-1, _INSTANT.size)

    def ask(self) -> None:
        """From now on turns are handed back."""
        if not self.asked:
            self._since[:] = _INSTANT.pack(self._clock.elapsed().total_seconds())
            os.write(self._writable, b"\0")

    def wait(self, timeout: timedelta) -> bool:
        """Wait until asked, at most so long."""
        poll = select.poll()
        poll.register(self._readable, select.POLLIN)
        return bool(poll.poll(timeout.total_seconds() * 1000))

    @property
    def asked(self) -> bool:
        """Whether turns are to be handed back at their next boundary."""
        return self.wait(timedelta(0))

    @property
    def grace_is_over(self) -> bool:
        """Whether calls of user code have had their time to end."""
        if not self.asked:
            return False
        (since,) = _INSTANT.unpack(self._since[:])
        return self._clock.elapsed() - timedelta(seconds=since) >= self._grace
