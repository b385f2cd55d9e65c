"""The one place that calls user code: on which thread, on which loop, and how it is stopped."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import pytest

from tests.orchestrator_core.builders import FakeWatch
from turnchain.orchestrator_core.errors import (
    CancelRequested,
    DeadlinePassed,
    HandBackAsked,
    Interruption,
    LeaseLost,
    OrchestratorFailedError,
)
from turnchain.orchestrator_core.invoke import Invoker

TENANT: ContextVar[str] = ContextVar("tenant", default="nobody")


@pytest.fixture
def invoker() -> Generator[Invoker]:
    invoker = Invoker()
    yield invoker
    invoker.close()


@pytest.fixture
def watch() -> FakeWatch:
    return FakeWatch()


def raising(error: BaseException) -> Any:
    raise error


async def araising(error: BaseException) -> Any:
    raise error


# -- sync


def test_a_sync_call_runs_on_the_callers_thread(invoker: Invoker, watch: FakeWatch) -> None:
    """[DESIGN 7]."""
    called = invoker.call(lambda a, b: (a, b, threading.current_thread()), 1, 2, watch=watch)

    assert called == (1, 2, threading.current_thread())


def test_a_stop_keeps_a_sync_call_from_beginning(invoker: Invoker, watch: FakeWatch) -> None:
    watch.stops(LeaseLost)
    called: list[int] = []

    with pytest.raises(LeaseLost):
        invoker.call(called.append, 1, watch=watch)

    assert called == []


@pytest.mark.parametrize("error", [ValueError("x"), LeaseLost("x"), KeyError("x")])
@pytest.mark.parametrize("call", [raising, araising])
def test_what_a_call_raises_comes_out_as_it_is(
    invoker: Invoker, watch: FakeWatch, call: Any, error: BaseException
) -> None:
    with pytest.raises(type(error)) as raised:
        invoker.call(call, error, watch=watch)

    assert raised.value is error


@pytest.mark.parametrize("call", [raising, araising])
def test_a_users_own_timeout_is_no_look_at_the_watch(
    invoker: Invoker, watch: FakeWatch, call: Any
) -> None:
    """Both are a TimeoutError: waiting on would wait for ever, since the call is over."""
    watch.stops(LeaseLost, after=3)

    with pytest.raises(TimeoutError, match="the author's"):
        invoker.call(call, TimeoutError("the author's"), watch=watch)


# -- async


def test_all_async_calls_run_on_one_loop_of_its_own_thread(
    invoker: Invoker, watch: FakeWatch
) -> None:
    """So that an author's async clients survive from turn to turn."""

    async def where() -> tuple[asyncio.AbstractEventLoop, str]:
        return asyncio.get_running_loop(), threading.current_thread().name

    first = invoker.call(where, watch=watch)
    others: list[Any] = []
    threads = [
        threading.Thread(target=lambda: others.append(invoker.call(where, watch=watch)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert others == [first] * 4
    assert first[1] == "turnchain-loop"


def test_no_thread_is_there_before_the_first_async_call(invoker: Invoker, watch: FakeWatch) -> None:
    """A fork before that inherits none."""
    before = set(threading.enumerate())

    invoker.call(lambda: 1, watch=watch)
    assert set(threading.enumerate()) <= before

    invoker.call(asyncio.sleep, 0, watch=watch)
    (begun,) = set(threading.enumerate()) - before
    assert (begun.name, begun.daemon) == ("turnchain-loop", True)


def test_any_awaitable_is_awaited(invoker: Invoker, watch: FakeWatch) -> None:
    class Later:
        def __await__(self) -> Generator[Any, None, int]:
            yield from asyncio.sleep(0).__await__()
            return 42

    assert invoker.call(Later, watch=watch) == 42


def test_a_context_variable_survives_into_the_loop(invoker: Invoker, watch: FakeWatch) -> None:
    async def whose() -> str:
        await asyncio.sleep(0)
        return TENANT.get()

    token = TENANT.set("acme")
    try:
        assert invoker.call(whose, watch=watch) == "acme"
    finally:
        TENANT.reset(token)
    assert invoker.call(whose, watch=watch) == "nobody"


@pytest.mark.parametrize("reason", [CancelRequested, DeadlinePassed, LeaseLost, HandBackAsked])
def test_a_stop_cancels_an_async_call(
    invoker: Invoker, watch: FakeWatch, reason: type[Interruption]
) -> None:
    ended = threading.Event()

    async def never() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.set()
            raise

    watch.stops(reason, after=1)

    with pytest.raises(reason):
        invoker.call(never, watch=watch)

    assert ended.wait(10)


def test_a_stop_before_an_async_call_keeps_it_from_beginning(
    invoker: Invoker, watch: FakeWatch
) -> None:
    began: list[int] = []

    async def begin() -> None:
        began.append(1)

    watch.stops(CancelRequested)

    with pytest.raises(CancelRequested):
        invoker.call(begin, watch=watch)

    assert began == []


def test_a_call_in_flight_looks_at_the_watch_again_and_again(
    invoker: Invoker, watch: FakeWatch
) -> None:
    async def until_seen() -> int:
        while watch.looks < 4:
            await asyncio.sleep(0)
        return watch.looks

    assert invoker.call(until_seen, watch=watch) >= 4


def test_an_exit_in_an_async_call_does_not_take_the_loop_with_it(
    invoker: Invoker, watch: FakeWatch
) -> None:
    """asyncio lets SystemExit out of the loop, which ended its thread: every later async call hung for ever."""

    async def answer() -> int:
        return 42

    with pytest.raises(SystemExit):
        invoker.call(araising, SystemExit(3), watch=watch)

    watch.stops(LeaseLost, after=20)
    assert invoker.call(answer, watch=watch) == 42


def test_a_call_that_would_wait_for_itself_is_refused(invoker: Invoker, watch: FakeWatch) -> None:
    """[O 16.5 T24] An async intent that runs another turn in place held the loop up, for ever and for everybody."""

    async def inner() -> int:
        return 42

    async def outer() -> int:
        return invoker.call(inner, watch=watch)

    watch.stops(LeaseLost, after=20)

    with pytest.raises(OrchestratorFailedError, match="to_thread"):
        invoker.call(outer, watch=watch)


def test_a_call_inside_an_async_one_may_go_by_a_thread(invoker: Invoker, watch: FakeWatch) -> None:
    async def inner() -> int:
        return 42

    async def outer() -> int:
        return await asyncio.to_thread(lambda: invoker.call(inner, watch=watch))

    assert invoker.call(outer, watch=watch) == 42


def test_closing_cancels_what_still_runs_and_asks_it_to_be_handed_back(
    invoker: Invoker, watch: FakeWatch
) -> None:
    """As a plain CancelledError it would be taken for the intent's own error, and saved as such."""
    began, ended = threading.Event(), threading.Event()
    raised: list[BaseException] = []

    async def never() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    def run() -> None:
        try:
            invoker.call(never, watch=watch)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert began.wait(10)

    invoker.close()
    thread.join(10)

    assert ended.is_set()
    assert [type(error) for error in raised] == [HandBackAsked]


def test_a_call_that_cancels_itself_has_failed_by_itself(
    invoker: Invoker, watch: FakeWatch
) -> None:
    """Some clients leak such a cancellation: it is the intent's error, not a stop of ours."""
    with pytest.raises(CancelledError):
        invoker.call(araising, asyncio.CancelledError(), watch=watch)

    assert issubclass(CancelledError, Exception)


def test_a_closed_invoker_begins_anew(invoker: Invoker, watch: FakeWatch) -> None:
    async def loop() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    before = set(threading.enumerate())
    first = invoker.call(loop, watch=watch)
    (thread,) = set(threading.enumerate()) - before
    invoker.close()
    invoker.close()
    thread.join(10)

    assert first.is_closed()
    assert invoker.call(loop, watch=watch) is not first


# -- what must not get past the stage


@pytest.mark.parametrize("call", [raising, araising])
@pytest.mark.parametrize(
    "error",
    [
        SystemExit("x"),
        KeyboardInterrupt(),
        GeneratorExit(),
        BaseExceptionGroup("x", [KeyboardInterrupt()]),
    ],
)
def test_what_ends_a_process_does_not_end_a_thread_of_the_pool(
    invoker: Invoker, watch: FakeWatch, call: Any, error: BaseException
) -> None:
    """Celery's threads pool counts a thread that ended so as busy for ever, and logs nothing."""
    with ThreadPoolExecutor(1) as pool:
        called = pool.submit(invoker.call, call, error, watch=watch)

        with pytest.raises(OrchestratorFailedError, match=type(error).__name__):
            called.result(5)


def test_an_interruption_comes_out_of_a_task_group_as_itself(
    invoker: Invoker, watch: FakeWatch
) -> None:
    """A step inside `asyncio.TaskGroup` may find that its lease is lost."""

    async def grouped() -> None:
        async with asyncio.TaskGroup() as group, asyncio.TaskGroup() as inner:
            group.create_task(asyncio.Event().wait())
            inner.create_task(araising(LeaseLost("gone")))

    with pytest.raises(LeaseLost, match="gone"):
        invoker.call(grouped, watch=watch)


def test_of_what_is_left_behind_only_the_kind_is_told(watch: FakeWatch) -> None:
    """[DESIGN 1.6] asyncio would log the exception's text."""
    told: list[type[BaseException] | None] = []
    heard = threading.Event()

    def hear(kind: type[BaseException] | None) -> None:
        told.append(kind)
        heard.set()

    async def leaves_behind() -> None:
        asyncio.get_running_loop().call_soon(raising, ValueError("what a person wrote"))

    invoker = Invoker(hear)
    invoker.call(leaves_behind, watch=watch)

    assert heard.wait(5)
    assert told == [ValueError]
    invoker.close()
