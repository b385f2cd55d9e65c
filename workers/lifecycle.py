"""When a worker's parts start and stop: Celery's signals, nothing more.

Celery swallows exceptions of signal handlers, so a refusal to start leaves as `SystemExit` with one sentence.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from math import ceil
from typing import Any, cast

from celery import Celery, signals

from turnchain.orchestrator_core import wire
from turnchain.orchestrator_core.contracts import STAGES
from turnchain.orchestrator_core.errors import SettingsError, TurnchainError
from turnchain.orchestrator_core.registry import Registry
from turnchain.tasks.base import StageTask
from turnchain.workers import preflight
from turnchain.workers.clock import SystemClock
from turnchain.workers.draining import Draining
from turnchain.workers.process import PoolProcess, start
from turnchain.workers.settings import Settings


@dataclass(slots=True)
class Lifecycle:
    """One app's worker, from start to end. `connect` it once; the signals hold it."""

    app: Celery
    settings: Settings
    registry: Registry | None = None
    consumed: frozenset[str] = frozenset()
    """The queues that the worker reads."""
    draining: Draining = field(init=False)
    process: PoolProcess | None = None

    def __post_init__(self) -> None:
        self.draining = Draining(SystemClock(), self.settings.hand_back_grace)

    def connect(self) -> None:
        """Follow Celery's signals."""
        signals.worker_init.connect(self.on_worker_init, weak=False)
        signals.worker_process_init.connect(self.on_child_start, weak=False)
        signals.worker_shutting_down.connect(self.on_shutting_down, weak=False)
        signals.worker_process_shutdown.connect(self.on_end, weak=False)
        signals.worker_shutdown.connect(self.on_end, weak=False)

    def on_worker_init(self, sender: Any = None, **_: Any) -> None:
        """Refuse to start with what cannot work, then open what this process itself needs.

        Threads and solo run stages in this very process; prefork does in children, and its parent keeps nothing open.
        A worker of another app, or one that reads none of our queues, is none of ours, wherever the app is installed.
        """
        self.consumed = frozenset(sender.app.amqp.queues.consume_from)
        # Equality, since an app may be handed over as Celery's proxy for it.
        if sender.app != self.app or not self.consumed & {*self._stage_queues, *wire.QUEUES}:
            return
        pool = str(
            sender.pool_cls if isinstance(sender.pool_cls, str) else sender.pool_cls.__module__
        )
        try:
            preflight.check_pool(pool)
            preflight.check_app(self.app)
            self.registry = preflight.registry_of(self.settings)
            preflight.check_registry(self.registry)
            preflight.check_ledger(self.settings)
            self._set_limits()
            if "prefork" not in pool and "processes" not in pool:
                self._start(slots_of(pool, sender.concurrency))
        except Exception as error:
            # Of whatever kind: a worker that runs on would take messages, and could do nothing with them.
            known = isinstance(error, TurnchainError)
            sys.stderr.write(
                f"turnchain: {error if known else f'{type(error).__name__}: {error}'}\n"
            )
            raise SystemExit(1) from None

    def on_child_start(self, **_: Any) -> None:
        """A prefork child, after the fork."""
        if self.registry is not None:
            self._start(1)

    def on_shutting_down(self, **_: Any) -> None:
        """SIGTERM, in the main process."""
        self.draining.ask()

    def on_end(self, **_: Any) -> None:
        """The pool process ends."""
        process, self.process = self.process, None
        if process:
            process.stop()

    def _set_limits(self) -> None:
        """One number each: renewing ends when the pool, where it can, ends the child."""
        for stage in STAGES:
            task = cast("StageTask", self.app.tasks[wire.task_name(stage)])
            limit = self.settings.limit_of(stage, self.settings.in_place(self.consumed))
            task.time_limit = ceil(limit.total_seconds())

    @property
    def _stage_queues(self) -> set[str]:
        return {self.settings.queue_of(stage) for stage in STAGES}

    def _start(self, width: int) -> None:
        """Open what a process needs that runs `width` tasks at once."""
        if self.registry is None:
            raise SettingsError("a pool process started without its worker's preflight")
        # What reads no stage's queue runs no stage, and must not have turns admitted for it.
        slots = width if self.consumed & self._stage_queues else 0
        self.process = start(
            self.app,
            self.settings,
            self.registry,
            self.draining,
            width=width,
            slots=slots,
            queues=sorted(self.consumed),
        )


def slots_of(pool: str, concurrency: Any) -> int:
    """How many stages a pool within one process runs at once.

    `auto`, which is allowed since Celery 5.7, is resolved only after this is asked, and solo's number means nothing.
    """
    if "solo" in pool:
        return 1
    if str(concurrency).strip().lower() == "auto":
        return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return int(concurrency or 1)
