"""What the parent of a prefork pool does when a child dies or hits its time limit: it says so. [DESIGN 6]"""

from __future__ import annotations

import logging
from typing import Any, cast

from billiard.exceptions import WorkerLostError
from celery.worker.request import Request

from turnchain.orchestrator_core import wire
from turnchain.orchestrator_core.contracts import Stage
from turnchain.tasks.identity import process_id

log = logging.getLogger("turnchain.tasks")


class StageRequest(Request):
    """A stage task's message inside the worker's main process.

    The parent holds no database connection, so it sends `turn.takeover` to whoever has one: the dead child's turn is
    then claimed elsewhere within about a second instead of after its lease. Losing that message costs only that second.
    """

    def on_failure(
        self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False
    ) -> None:
        """Announce the loss of a child; everything else is Celery's."""
        error = exc_info.exception
        error = getattr(
            error, "exc", error
        )  # billiard wraps what crossed the process in ExceptionWithTraceback
        if isinstance(error, WorkerLostError | SystemExit | KeyboardInterrupt):
            self._announce()
        super().on_failure(exc_info, send_failed_event=send_failed_event, return_ok=return_ok)

    def on_timeout(self, soft: bool, timeout: float) -> None:
        """Announce that a child is about to be killed by its hard time limit."""
        if not soft:
            self._announce()
        super().on_timeout(soft, timeout)

    def _announce(self) -> None:
        try:
            stage = Stage(self.task_name.removeprefix(wire.TASK_PREFIX))
            turn_id, fence = self.args
            dead = process_id(cast("int", self.worker_pid))  # set when a child accepted it
            app = self.task.app
            # On a connection of its own: a pooled one would be inherited by the next child, which shuts it down for us
            # both when it collects its garbage (amqp 5.4), and the next announcement would be lost.
            with app.connection_for_write() as connection:
                app.send_task(
                    wire.TAKEOVER,
                    args=(turn_id, stage.value, fence, dead),
                    ignore_result=True,
                    retry=False,
                    connection=connection,
                )
        except Exception as error:
            # The pool's result handler must survive whatever broker or message made of this; the sweep takes over.
            log.warning(
                "takeover not announced",
                extra={"task_id": str(self.id)[:120], "error": type(error).__name__},
            )
