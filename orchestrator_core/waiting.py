"""How a producer waits for many turns at once: one listener, one batched question, however many wait."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Container, Iterable
from contextlib import suppress
from datetime import timedelta
from queue import Empty, SimpleQueue

from turnchain.orchestrator_core.contracts import SettledTurn, TurnId
from turnchain.orchestrator_core.errors import StoreUnavailableError
from turnchain.orchestrator_core.ports import Clock, Ledger

_ASK = timedelta(milliseconds=500)
"""A notification can be lost with its connection, so whoever waits also asks this often, for all turns in one query."""

Answer = SettledTurn | Exception
"""What a waiter is told: how its turn ended, or why nobody can tell."""
Hear = Callable[[Answer], None]


class Waiter:
    """Tells callers when their turns settle. One daemon thread, alive only while somebody waits."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: dict[TurnId, list[Hear]] = {}
        self._thread: threading.Thread | None = None

    def wait(self, turn_id: TurnId, timeout: timedelta | None) -> SettledTurn | None:
        """The turn once it is settled; None after `timeout`, which may be no time at all."""
        heard: SimpleQueue[Answer] = SimpleQueue()
        seconds = None if timeout is None else timeout.total_seconds()
        self._add(turn_id, heard.put)
        try:
            if settled := self._ledger.settled([turn_id]):
                return settled[0]
            return _settled(heard.get(timeout=seconds))
        except Empty:
            return None
        finally:
            self._remove(turn_id, heard.put)

    async def await_(self, turn_id: TurnId, timeout: timedelta | None) -> SettledTurn | None:
        """`wait` without holding a thread of the caller's loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        seconds = None if timeout is None else timeout.total_seconds()

        def settle(answer: Answer) -> None:
            if not future.done():
                future.set_result(answer)

        def hear(answer: Answer) -> None:
            with suppress(RuntimeError):  # the loop has been closed; nobody waits there any more
                loop.call_soon_threadsafe(settle, answer)

        self._add(turn_id, hear)
        try:
            if settled := await asyncio.to_thread(self._ledger.settled, [turn_id]):
                return settled[0]
            return _settled(await asyncio.wait_for(future, seconds))
        except TimeoutError:
            return None
        finally:
            self._remove(turn_id, hear)

    def _add(self, turn_id: TurnId, hear: Hear) -> None:
        """From now on `hear` is told. Whoever adds also asks once himself: a thread that listens may ask much later."""
        with self._lock:
            self._waiting.setdefault(turn_id, []).append(hear)
            if self._thread is None or not self._thread.is_alive():  # a fork leaves it behind
                self._thread = threading.Thread(
                    target=self._serve, name="turnchain-waiter", daemon=True
                )
                self._thread.start()

    def _remove(self, turn_id: TurnId, hear: Hear) -> None:
        with self._lock:
            waiting = [each for each in self._waiting.pop(turn_id, ()) if each != hear]
            if waiting:
                self._waiting[turn_id] = waiting

    def _serve(self) -> None:
        """Listen first, ask then, so that what settles in between is heard; end once nobody waits."""
        while self._someone_waits():
            try:
                with self._ledger.listen() as listener:
                    heard: Container[TurnId] | None = None
                    while self._someone_waits():
                        self._ask(heard)
                        heard = listener.wait(_ASK) or None
            except StoreUnavailableError:
                # Callers keep their own deadlines; the store may be back before they pass.
                threading.Event().wait(_ASK.total_seconds())
            except Exception as error:
                # A thread's edge: ending here would leave those who wait, and all who ever will, without an answer.
                self._tell(self._everybody(), error)

    def _someone_waits(self) -> bool:
        with self._lock:
            if not self._waiting:
                self._thread = None
            return self._thread is not None

    def _ask(self, heard: Container[TurnId] | None) -> None:
        """Ask for those that were heard of and are waited for here; None asks for all."""
        with self._lock:
            asked = [turn_id for turn_id in self._waiting if heard is None or turn_id in heard]
        for turn in self._ledger.settled(asked) if asked else ():
            with self._lock:
                waiting = list(self._waiting.get(turn.turn.turn_id, ()))
            self._tell(waiting, turn)

    def _everybody(self) -> list[Hear]:
        """All who wait now, and do so no longer."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        return [hear for each in waiting.values() for hear in each]

    @staticmethod
    def _tell(waiting: Iterable[Hear], answer: Answer) -> None:
        for hear in waiting:
            hear(answer)


def _settled(answer: Answer) -> SettledTurn:
    if isinstance(answer, Exception):
        raise answer
    return answer
