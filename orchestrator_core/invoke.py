"""The one place that calls user code, sync or async, and owns the process's event loop. [DESIGN 7]"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from typing import Any, TypeVar, cast

from turnchain.orchestrator_core.errors import Interruption
from turnchain.orchestrator_core.ports import Watch

T = TypeVar("T")

_LOOK_SECONDS = 0.1
"""How often a call in flight asks whether it must stop; a stop costs at most this much more."""


class Invoker:
    """Calls sync user code on the caller's thread and async user code on one event-loop thread per process.

    The loop starts with the first async call, so that a fork before that inherits no thread. One loop serves all calls,
    so that a user's async clients survive from turn to turn.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def call(self, fn: Callable[..., T | Awaitable[T]], *args: object, watch: Watch) -> T:
        """Call `fn` and wait for its value.

        Raises:
            Interruption: what `watch.check_call()` said meanwhile. An async call is cancelled first; a sync call
                cannot be, and is asked for again only when it returns.
            BaseException: whatever `fn` raised.
        """
        watch.check_call()
        value = fn(*args)
        if inspect.isawaitable(value):
            return self._wait(_as_coroutine(cast("Awaitable[T]", value)), watch)
        return cast("T", value)

    def close(self) -> None:
        """Stop the event loop. Calling it twice is safe."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop:
            loop.call_soon_threadsafe(loop.stop)

    def _wait(self, coroutine: Coroutine[Any, Any, T], watch: Watch) -> T:
        future: Future[T] = asyncio.run_coroutine_threadsafe(coroutine, self._running_loop())
        while True:
            try:
                return future.result(_LOOK_SECONDS)
            except NotYet:
                if future.done():  # the user's own TimeoutError
                    return future.result()
                try:
                    watch.check_call()
                except Interruption:
                    future.cancel()
                    raise

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=self._serve, args=(self._loop,), name="turnchain-loop", daemon=True
                ).start()
            return self._loop

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.run_forever()
        loop.close()


async def _as_coroutine(value: Awaitable[T]) -> T:
    return await value
