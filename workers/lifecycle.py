"""When a worker's parts start and stop: Celery's signals, nothing more.

Celery swallows exceptions of signal handlers, so a refusal to start leaves as `SystemExit` with one sentence.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import Any

from celery import Celery, signals

from turnchain.orchestrator_core.errors import TurnchainError
from turnchain.orchestrator_core.registry import Registry, load_definitions
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
        """
        pool = str(
            sender.pool_cls if isinstance(sender.pool_cls, str) else sender.pool_cls.__module__
        )
        try:
            preflight.check_pool(pool)
            self.registry = Registry(load_definitions(self.settings.orchestrators))
            preflight.check_registry(self.registry)
            preflight.check_ledger(self.settings)
        except TurnchainError as error:
            sys.stderr.write(f"turnchain: {error}\n")
            raise SystemExit(1) from None
        if "prefork" not in pool and "processes" not in pool:
            self._start(int(sender.concurrency or 1))

    def on_child_start(self, **_: Any) -> None:
        """A prefork child, after the fork."""
        self._start(1)

    def on_shutting_down(self, **_: Any) -> None:
        """SIGTERM, in the main process."""
        self.draining.ask()

    def on_end(self, **_: Any) -> None:
        """The pool process ends."""
        process, self.process = self.process, None
        if process:
            process.stop()

    def _start(self, slots: int) -> None:
        if self.registry is None:
            raise SystemExit("turnchain: a pool process started without its worker's preflight")
        self.process = start(self.app, self.settings, self.registry, self.draining, slots)
