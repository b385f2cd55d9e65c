"""The one place that calls user code, sync or async, and owns the process's event loop. [DESIGN 7]"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import CancelledError, Future
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from typing import TypeVar, cast

from turnchain.orchestrator_core.errors import (
    HandBackAsked,
    Interruption,
    OrchestratorFailedError,
)
from turnchain.orchestrator_core.ports import Watch

T = TypeVar("T")

_LOOK_SECONDS = 0.1
"""How often a call in flight asks whether it must stop; a stop costs at most this much more."""
_CLEAN_UP_SECONDS = 1.0
"""How long a call that was cancelled is waited for."""


class Invoker:
    """Calls sync user code on the caller's thread and async user code on one event-loop thread per process.

    The loop starts with the first async call, so that a fork before that inherits no thread. One loop serves all calls,
    so that a user's async clients survive from turn to turn.
    """

    def __init__(
        self, on_stray: Callable[[type[BaseException] | None], None] = lambda _: None
    ) -> None:
        """`on_stray` hears of the kinds of exceptions that user code left behind on the loop, and that nobody awaits.

        Not of their texts, which may hold what a person wrote; asyncio would log those.
        """
        self._on_stray = on_stray
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def call(self, fn: Callable[..., T | Awaitable[T]], *args: object, watch: Watch) -> T:
        """Call `fn` and wait for its value.

        Raises:
            OrchestratorFailedError: an async call was asked for on the event loop itself.
            Interruption: what `watch.check_call()` said meanwhile. An async call is cancelled first; a sync call
                cannot be, and is asked for again only when it returns.
            HandBackAsked: `close` cancelled the call.
            BaseException: whatever `fn` raised.
        """
        watch.check_call()
        try:
            value = fn(*args)
            if inspect.isawaitable(value):
                return self._wait(cast("Awaitable[T]", value), watch)
            return cast("T", value)
        except Interruption:
            raise
        except BaseException as error:
            own = _own(error)
            if own is error:
                raise
            raise own from error

    def close(self) -> None:
        """Cancel what still runs, give it a second to clean up, and stop the event loop. Calling it twice is safe."""
        with self._lock:
            loop, self._loop = self._loop, None
        if loop:
            ended = asyncio.run_coroutine_threadsafe(_end_all(), loop)
            with suppress(NotYet):
                ended.result(_CLEAN_UP_SECONDS)
            loop.call_soon_threadsafe(loop.stop)

    def _wait(self, value: Awaitable[T], watch: Watch) -> T:
        loop = self._running_loop()
        if _is_running_here(loop):
            if inspect.iscoroutine(value):
                value.close()
            raise OrchestratorFailedError(
                "an async call ran another one in place, on the loop that both need, and would wait for itself for "
                "ever: await it, or use asyncio.to_thread(engine.execute, ...)"
            )
        ended = threading.Event()
        future: Future[T] = asyncio.run_coroutine_threadsafe(_as_coroutine(value, ended), loop)
        while True:
            try:
                return future.result(_LOOK_SECONDS)
            except CancelledError:
                if self._loop is loop:
                    raise  # by itself
                raise HandBackAsked from None  # by `close`: the call is to be made again elsewhere
            except NotYet:
                if future.done():  # the user's own TimeoutError
                    return future.result()
                try:
                    watch.check_call()
                except Interruption:
                    future.cancel()
                    # Until it has ended it may still act, beside whoever runs the stage next. [O 15.4 G37]
                    ended.wait(_CLEAN_UP_SECONDS)
                    raise

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=self._serve, args=(self._loop,), name="turnchain-loop", daemon=True
                ).start()
            return self._loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)

        def hear(_: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
            error = context.get("exception")
            self._on_stray(type(error) if isinstance(error, BaseException) else None)

        loop.set_exception_handler(hear)
        while True:
            try:
                loop.run_forever()
                break
            except (SystemExit, KeyboardInterrupt):
                # asyncio raises these once more, out of the loop, after it gave them to the call that raised them:
                # the caller hears of it, and the loop has other calls to serve.
                continue
        loop.close()


def _own(error: BaseException) -> BaseException:
    """What user code raised, as something that the stage around it knows.

    An interruption may come out of a TaskGroup wrapped in an exception group: it stays an interruption. What ends a
    process (SystemExit, from a library that thinks it is a program) must not end a thread of the pool, which Celery
    would count as busy for ever; on the main thread it may be this process's own signal, and is left alone.
    """
    kind: type[BaseException] = type(error)
    if issubclass(kind, BaseExceptionGroup):
        found = cast("BaseExceptionGroup[BaseException]", error).subgroup(Interruption)
        if found:
            return _first_leaf(found)
    if issubclass(kind, Exception):
        return error
    is_main = threading.current_thread() is threading.main_thread()
    ends_process = issubclass(kind, SystemExit | KeyboardInterrupt) and not is_main
    if ends_process or issubclass(kind, GeneratorExit | BaseExceptionGroup):
        return OrchestratorFailedError(
            f"{kind.__name__} was raised, which is not for user code: raise an exception that says what went wrong"
        )
    return error


def _first_leaf(group: BaseExceptionGroup[BaseException]) -> BaseException:
    first = group.exceptions[0]
    if isinstance(first, BaseExceptionGroup):
        return _first_leaf(cast("BaseExceptionGroup[BaseException]", first))
    return first


async def _end_all() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _is_running_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


async def _as_coroutine(value: Awaitable[T], ended: threading.Event) -> T:
    try:
        return await value
    finally:
        ended.set()
