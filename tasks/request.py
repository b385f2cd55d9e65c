"""A stage task's message inside the worker's main process: what it tells Flower, and who is told when a child dies."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from datetime import timedelta
from secrets import token_hex
from typing import Any, Final, cast

from billiard.exceptions import Terminated, WorkerLostError
from celery.worker.request import Request

from turnchain.orchestrator_core import wire
from turnchain.orchestrator_core.contracts import Stage
from turnchain.tasks import in_place, telling
from turnchain.tasks.identity import process_id

log = logging.getLogger("turnchain.tasks")

SUCCEEDED, FAILED = "task-succeeded", "task-failed"
QUEUE: Final = "turn.queue"
"""The name under which Flower lists, and counts, how long turns waited for their first claim. There is no such task."""
_ENDS: Final = (WorkerLostError, Terminated, SystemExit, KeyboardInterrupt)
"""What a child ends with: it was lost, a revoke ended it, or it ended itself."""
_RAISED: Final = re.compile(
    r"[\w.]+\.((?:StageFailed|WorkerLostError|TimeLimitExceeded|Terminated)\b.*)"
)
"""The last line of a traceback that says ids and numbers only."""


class StageRequest(Request):
    """The parent's side of a stage.

    The parent holds no database connection, so it sends `turn.takeover` to whoever has one: the dead child's turn is
    then claimed elsewhere within about a second instead of after its lease. Losing that message costs only that second.
    """

    time_limits: Any = property(lambda self: (None, None), lambda self, given: None)
    """Never the message's: whoever published it may run other stages behind it, with other limits, than this worker."""

    def send_event(self, type: str, **fields: Any) -> None:  # noqa: A002 - Celery's name
        """As inherited, but a stage that is through is shown as what it came to. [ADR 0014]

        Celery's own class for each task, made of this one, overrides `on_success`; this is where all that it says
        comes by.
        """
        if type == FAILED:
            # Celery says ExceptionWithTraceback() of whatever was raised (celery 5.7.0, billiard 4.3).
            found = _RAISED.fullmatch(str(fields["traceback"]).rstrip().rpartition("\n")[2])
            fields["exception"] = found[1] if found else fields["exception"]
        if type != SUCCEEDED or not self._is_heard():
            super().send_event(type, **fields)
            return
        line, notes = in_place.read(fields["result"])
        told = telling.read(line)
        self._send_notes(notes, (self.time_start or 0) + fields["runtime"])
        if told.waited is not None:
            self._send_waited(told.waited)
        if told.detail:
            fields["result"] = told.detail
        super().send_event(f"task-{told.state}" if told.state else type, **fields)

    def on_failure(
        self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False
    ) -> None:
        """Announce the end of a child; everything else is Celery's."""
        error = exc_info.exception
        error = getattr(
            error, "exc", error
        )  # billiard wraps what crossed the process in ExceptionWithTraceback
        if isinstance(error, _ENDS):
            self._announce()
        super().on_failure(exc_info, send_failed_event=send_failed_event, return_ok=return_ok)

    def on_timeout(self, soft: bool, timeout: float) -> None:
        """Announce that a child is about to be killed by its hard time limit."""
        if not soft:
            self._announce()
        super().on_timeout(soft, timeout)

    def terminate(self, pool: Any, signal: Any = None) -> None:
        """As inherited, but a request that waits for a thread survives that threads cannot be ended.

        Asked for before a thread began with it, this is called by that thread, whose slot an exception costs for good.

        Raises:
            NotImplementedError: the pool has no processes to end; whoever asked for it is told.
        """
        try:
            super().terminate(pool, signal=signal)
        except NotImplementedError:
            waiting: Any = self  # Celery's stubs leave its private names out
            if waiting._terminate_on_ack is None:
                raise
            log.warning("not terminated: this pool cannot", extra={"task_id": str(self.id)[:120]})

    def _is_heard(self) -> bool:
        """Whether anybody asked for task events: until then, they cost nothing."""
        eventer: Any = self.eventer
        groups = eventer.groups if eventer else ()
        return bool(
            eventer
            and eventer.enabled
            and self.task.send_events
            and (not groups or "task" in groups)
        )

    def _send_waited(self, waited: timedelta) -> None:
        """A row of its own beside the row of `load`, so that Flower's histogram of run times has the waits as well."""
        eventer: Any = self.eventer
        seconds = waited.total_seconds()
        eventer.send(
            "task-waited",
            uuid=self.id.replace(f":{Stage.LOAD}:", ":queue:", 1),
            name=QUEUE,
            args=self.argsrepr,
            kwargs=self.kwargsrepr,
            root_id=self.root_id,
            received=(self.time_start or 0) - seconds,
            runtime=seconds,
        )

    def _send_notes(self, notes: Sequence[in_place.Note], ends: float) -> None:
        """The events of the stages called in place, one behind the other up to the end of the whole."""
        eventer: Any = self.eventer
        began = ends - sum(note.runtime.total_seconds() for note in notes)
        for note in notes:
            own = {"uuid": in_place.id_in_place(self.id, note.stage)}
            told = telling.read(note.line or "None")
            eventer.send(
                "task-received",
                **own,
                name=wire.task_name(note.stage),
                args=self.argsrepr,
                kwargs=self.kwargsrepr,
                root_id=self.root_id,
                parent_id=self.id,
                timestamp=began,
            )
            eventer.send("task-started", **own, timestamp=began)
            runtime = note.runtime.total_seconds()
            began += runtime
            kind = f"task-{told.state}" if told.state else SUCCEEDED
            eventer.send(
                kind, **own, result=told.detail or "None", runtime=runtime, timestamp=began
            )

    def _announce(self) -> None:
        try:
            wake = wire.read_wake(self.task_name.removeprefix(wire.TASK_PREFIX), self.args)
            if wake is None:
                raise ValueError("no wake of ours")
            dead = process_id(cast("int", self.worker_pid))  # set when a child accepted it
            app = self.task.app
            # On a connection of its own: a pooled one would be inherited by the next child, which shuts it down for us
            # both when it collects its garbage (amqp 5.4), and the next announcement would be lost.
            with app.connection_for_write() as connection:
                app.send_task(
                    wire.TAKEOVER,
                    args=(wake.turn_id, wake.stage.value, wake.fence, dead),
                    task_id=f"{wake.turn_id}:takeover:{wake.fence}.{token_hex(4)}",
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
