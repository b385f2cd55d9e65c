"""Threads that stop before every statement, so that a scheduler chooses every interleaving and every crash."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from turnchain.orchestrator_core.contracts import Claim
from turnchain.orchestrator_core.ports import Unit

PATIENCE_SECONDS = 20.0
"""A statement of the memory driver takes microseconds; longer means that the model itself hangs."""


class Crash(BaseException):
    """The process is gone. Nothing in the product may catch it."""


class Order(Enum):
    """What the scheduler tells a thread that waits before a statement."""

    GO = "execute it"
    CRASH_BEFORE = "die before it"
    CRASH_AFTER = "execute it, and die before its answer"


class Gate:
    """One thread of one process. It runs only while the scheduler waits, from gate to gate."""

    def __init__(self) -> None:
        self._go, self._stopped = threading.Lock(), threading.Lock()
        for closed in (self._go, self._stopped):  # plain locks: the fastest way to hand over a turn
            closed.acquire()
        self._order = Order.GO
        self.before: str | None = None
        """The statement that the thread waits before; None while no thread runs."""

    def start(self, act: Callable[[], None]) -> None:
        """Begin `act` on a thread of its own, and wait until it stands before its first statement."""
        threading.Thread(target=self._run, args=(act,), daemon=True).start()
        self._wait()

    def open(self, order: Order = Order.GO) -> None:
        """Let the thread go on to its next statement or its end."""
        self._order = order
        self._go.release()
        self._wait()

    def stop(self, statement: str) -> bool:
        """Called by the thread: wait here. True: die after the statement."""
        self.before = statement
        self._stopped.release()
        self._go.acquire()
        if self._order is Order.CRASH_BEFORE:
            raise Crash
        return self._order is Order.CRASH_AFTER

    def _run(self, act: Callable[[], None]) -> None:
        try:
            act()
        except Crash:
            pass
        finally:
            self.before = None
            self._stopped.release()

    def _wait(self) -> None:
        assert self._stopped.acquire(timeout=PATIENCE_SECONDS), f"stuck in {self.before}"


class Gated:
    """A store whose every verb stops at the gate first."""

    def __init__(self, store: Any, gate: Gate) -> None:
        self._store = store
        self._gate = gate

    def __getattr__(self, verb: str) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            dies = self._gate.stop(verb)
            result = getattr(self._store, verb)(*args, **kwargs)
            if dies:
                raise Crash
            return result

        return call

    @contextmanager
    def unit(self, claim: Claim, *, durable: bool) -> Generator[Unit]:
        """Two statements: before the transaction begins, and before it commits."""
        if self._gate.stop("unit"):
            raise Crash
        with self._store.unit(claim, durable=durable) as unit:
            yield unit
            dies = self._gate.stop(f"commit of {claim.turn.stage.value}")
        if dies:
            raise Crash
