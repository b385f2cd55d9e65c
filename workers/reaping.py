"""Noticing soon that a child of the prefork pool has died, so that its turn is taken over within about a second."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from celery.bootsteps import StartStopStep

INTERVAL = timedelta(milliseconds=500)


class Reaper(StartStopStep):
    """Has the pool look for dead children twice a second, in its own event loop: no thread, no connection.

    The pool hears of a death when the child's files are closed. That is a moment before the system tells anybody the
    exit status, so a pool that asks at once may be told that the child lives; it has stopped listening by then, and
    asks again only every 5 s (celery 5.7.0, billiard 4.3). With threads in the child, as in ours, one death in three
    goes unheard.
    """

    requires = ("celery.worker.components:Pool",)

    def register_with_event_loop(self, worker: Any, hub: Any) -> None:
        """Called at each start of the worker's loop; the worker cancels what was registered when a loop ends."""
        maintain = getattr(getattr(worker.pool, "_pool", None), "maintain_pool", None)
        if maintain:
            hub.call_repeatedly(INTERVAL.total_seconds(), maintain)
