"""How a producer waits for many turns at once: one listener, one batched question, however many wait."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable
from datetime import timedelta

from turnchain.orchestrator_core.contracts import SettledTurn, TurnId
from turnchain.orchestrator_core.errors import StoreUnavailableError
from turnchain.orchestrator_core.ports import Clock, Ledger

_ASK = timedelta(milliseconds=500)
"""A notification can be lost with its connection, so whoever waits also asks this often, for all turns in one query."""

Heard = Callable[[SettledTurn], None]


class Waiter:
    """Tells callers when their turns settle. One daemon thread, alive only while somebody waits."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: defaultdict[TurnId, list[Heard]] = defaultdict(list)
        self._thread: threading.Thread | None = None

    def wait(self, turn_id: TurnId, timeout: timedelta | None) -> SettledTurn | None:
        """The turn once it is settled; None after `timeout`."""
        settled: list[SettledTurn] = []
        heard = threading.Event()

        def hear(turn: SettledTurn) -> None:
            settled.append(turn)
            heard.set()

        self._add(turn_id, hear)
        try:
            heard.wait(None if timeout is None else timeout.total_seconds())
        finally:
            self._remove(turn_id, hear)
        return settled[0] if settled else None

    async def await_(self, turn_id: TurnId, timeout: timedelta | None) -> SettledTurn | None:
        """`wait` without holding a thread of the caller's loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[SettledTurn] = loop.create_future()

        def settle(turn: SettledTurn) -> None:
            if not future.done():
                future.set_result(turn)

        def hear(turn: SettledTurn) -> None:
            loop.call_soon_threadsafe(settle, turn)

        self._add(turn_id, hear)
        try:
            return await asyncio.wait_for(
                future, None if timeout is None else timeout.total_seconds()
            )
        except TimeoutError:
            return None
        finally:
            self._remove(turn_id, hear)

    def _add(self, turn_id: TurnId, hear: Heard) -> None:
        with self._lock:
            self._waiting[turn_id].append(hear)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._serve, name="turnchain-waiter", daemon=True
                )
                self._thread.start()

    def _remove(self, turn_id: TurnId, hear: Heard) -> None:
        with self._lock:
            if hear in self._waiting[turn_id]:
                self._waiting[turn_id].remove(hear)
            if not self._waiting[turn_id]:
                del self._waiting[turn_id]

    def _serve(self) -> None:
        """Listen first, ask then, so that what settles in between is heard; end once nobody waits."""
        while self._someone_waits():
            try:
                with self._ledger.listen() as listener:
                    while self._someone_waits():
                        self._ask()
                        listener.wait(_ASK)
            except StoreUnavailableError:
                # Callers keep their own deadlines; the store may be back before they pass.
                threading.Event().wait(_ASK.total_seconds())

    def _someone_waits(self) -> bool:
        with self._lock:
            if not self._waiting:
                self._thread = None
            return self._thread is not None

    def _ask(self) -> None:
        with self._lock:
            asked = list(self._waiting)
        for turn in self._ledger.settled(asked):
            with self._lock:
                waiting = list(self._waiting.get(turn.turn.turn_id, ()))
            for hear in waiting:
                hear(turn)
