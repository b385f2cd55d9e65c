"""How a producer hears of its turns: by notification, and by asking where that is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from time import monotonic
from typing import Any

import psycopg
import pytest

from turnchain import SessionClient, TurnTimeout
from turnchain.orchestrator_core.contracts import SettledTurn, TurnId
from turnchain.orchestrator_core.errors import (
    InvalidInputError,
    SchemaMissingError,
    StoreUnavailableError,
)
from turnchain.orchestrator_core.waiting import Waiter
from turnchain.stores import memory, postgres
from turnchain.stores.conformance.exam import Given, id_of
from turnchain.stores.memory import MemoryLedger
from turnchain.workers.clock import SystemClock, new_turn_id

PATIENCE = timedelta(seconds=5)


class ScriptedLedger(MemoryLedger):
    """Memory, with questions counted and, where a test says so, answered otherwise."""

    def __init__(self, tables: memory.Tables) -> None:
        super().__init__(tables)
        self.asked: list[list[TurnId]] = []
        self.before_answer: Callable[[list[TurnId]], None] = lambda _: None
        self.is_deaf = False

    def settled(self, turn_ids: Iterable[TurnId]) -> list[SettledTurn]:
        asked = list(turn_ids)
        self.asked.append(asked)
        self.before_answer(asked)
        return super().settled(asked)

    @contextmanager
    def listen(self) -> Generator[Any]:
        if self.is_deaf:
            yield _Deaf()
            return
        with super().listen() as listener:
            yield listener


class _Deaf:
    def wait(self, timeout: timedelta) -> frozenset[TurnId]:
        threading.Event().wait(timeout.total_seconds())
        return frozenset()


class Bench:
    """A ledger, a waiter on it, and turns."""

    def __init__(self) -> None:
        stores = memory.connect()
        self.ledger = ScriptedLedger(stores.tables)
        self.given = Given(stores)
        self.waiter = Waiter(self.ledger, SystemClock())
        self.client = SessionClient(
            self.ledger, Nobody(), SystemClock(), new_turn_id, lambda connection, then: then()
        )

    def in_background(self, turn: str) -> tuple[threading.Thread, list[Any]]:
        """A thread that waits for the turn, and what it got."""
        got: list[Any] = []

        def wait() -> None:
            try:
                got.append(self.waiter.wait(id_of(turn), PATIENCE))
            except Exception as error:
                got.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        return thread, got

    def wait_until_asked(self, count: int = 2) -> None:
        """Wait until the waiting thread has asked at least so often."""
        until(lambda: len(self.ledger.asked) >= count)


class Nobody:
    def publish(self, wakes: object) -> None:
        """Wakes nobody."""


@pytest.fixture
def bench() -> Bench:
    return Bench()


def until(holds: Callable[[], object]) -> None:
    deadline = monotonic() + PATIENCE.total_seconds()
    while not holds():
        assert monotonic() < deadline
        threading.Event().wait(0.005)


def waiter_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "turnchain-waiter"]


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    until(lambda: not waiter_threads())
    yield
    until(lambda: not waiter_threads())


def test_a_waiter_hears_when_its_turn_settles(bench: Bench) -> None:
    bench.given.accepted("t1")
    thread, got = bench.in_background("t1")
    bench.wait_until_asked()

    began = monotonic()
    bench.ledger.request_cancel(id_of("t1"), bench.given.turn("t1").owner)
    thread.join()

    assert got[0].turn.turn_id == id_of("t1")
    assert monotonic() - began < 0.4


def test_what_has_settled_before_is_answered_at_once(bench: Bench) -> None:
    bench.given.settled("t1")

    assert bench.waiter.wait(id_of("t1"), timedelta(0)) is not None


def test_a_lost_notification_is_made_up_for_by_asking(bench: Bench) -> None:
    bench.ledger.is_deaf = True
    bench.given.accepted("t1")
    thread, got = bench.in_background("t1")
    bench.wait_until_asked()

    bench.ledger.request_cancel(id_of("t1"), bench.given.turn("t1").owner)
    thread.join()

    assert got[0] is not None


def test_a_timeout_is_no_answer_and_leaves_nobody_waiting(bench: Bench) -> None:
    bench.given.accepted("t1")

    assert bench.waiter.wait(id_of("t1"), timedelta(milliseconds=20)) is None
    assert bench.waiter._waiting == {}


def test_all_who_wait_are_asked_for_in_one_question_by_one_thread(bench: Bench) -> None:
    names = [f"t{number}" for number in range(20)]
    for name in names:
        bench.given.accepted(name, session=name)
    waiting = [bench.in_background(name) for name in names]
    until(lambda: any(len(asked) == len(names) for asked in bench.ledger.asked))

    assert len(waiter_threads()) == 1
    for name in names:
        bench.ledger.request_cancel(id_of(name), bench.given.turn(name).owner)
    for thread, got in waiting:
        thread.join()
        assert got[0] is not None


def test_several_may_wait_for_one_turn(bench: Bench) -> None:
    bench.given.accepted("t1")
    waiting = [bench.in_background("t1") for _ in range(5)]
    bench.wait_until_asked(6)

    bench.ledger.request_cancel(id_of("t1"), bench.given.turn("t1").owner)

    for thread, got in waiting:
        thread.join()
        assert got[0] is not None


def test_a_store_that_comes_back_is_asked_again(bench: Bench) -> None:
    bench.given.accepted("t1")
    thread, got = bench.in_background("t1")
    bench.wait_until_asked()
    failures: list[int] = []

    def fail_twice(_: object) -> None:
        if len(failures) < 2:
            failures.append(1)
            raise StoreUnavailableError("away")

    bench.ledger.before_answer = fail_twice
    bench.ledger.request_cancel(id_of("t1"), bench.given.turn("t1").owner)
    thread.join()

    assert len(failures) == 2
    assert got[0].turn.turn_id == id_of("t1")


def test_what_no_time_will_cure_is_told_to_everybody_who_waits(bench: Bench) -> None:
    """What broke: the thread ended, and nobody in this process ever heard of a settled turn again."""
    for name in ("t1", "t2"):
        bench.given.accepted(name, session=name)
    waiting = [bench.in_background(name) for name in ("t1", "t2")]
    until(lambda: any(len(asked) == 2 for asked in bench.ledger.asked))

    def refuse(_: object) -> None:
        bench.ledger.before_answer = lambda _: None
        raise SchemaMissingError("no tables")

    bench.ledger.before_answer = refuse
    for thread, got in waiting:
        thread.join()
        assert isinstance(got[0], SchemaMissingError)

    thread, got = bench.in_background("t1")
    bench.ledger.request_cancel(id_of("t1"), bench.given.turn("t1").owner)
    thread.join()
    assert got[0].turn.turn_id == id_of("t1")


def test_an_async_waiter_hears_too(bench: Bench) -> None:
    bench.given.accepted("t1")

    async def wait() -> SettledTurn | None:
        waiting = asyncio.create_task(bench.waiter.await_(id_of("t1"), PATIENCE))
        await asyncio.to_thread(bench.wait_until_asked)
        bench.ledger.request_cancel(id_of("t1"), bench.given.turn("t1").owner)
        return await waiting

    assert asyncio.run(wait()) is not None


def test_an_async_waiter_times_out_and_may_be_cancelled(bench: Bench) -> None:
    bench.given.accepted("t1")

    async def wait() -> None:
        assert await bench.waiter.await_(id_of("t1"), timedelta(milliseconds=20)) is None
        waiting = asyncio.create_task(bench.waiter.await_(id_of("t1"), None))
        await asyncio.to_thread(bench.wait_until_asked, len(bench.ledger.asked) + 2)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(wait())
    assert bench.waiter._waiting == {}


def test_an_event_loop_that_is_closed_takes_nobody_else_down(bench: Bench) -> None:
    """What broke: telling a closed loop ended the thread, and with it everybody else's wait."""
    for name in ("t1", "t2"):
        bench.given.accepted(name, session=name)
    loop = asyncio.new_event_loop()
    abandoned = loop.create_task(bench.waiter.await_(id_of("t1"), None))
    bench.ledger.is_deaf = True

    async def begin() -> None:
        await asyncio.to_thread(until, lambda: bench.waiter._waiting.get(id_of("t1")))

    loop.run_until_complete(begin())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
    bench.given.ledger.request_cancel(id_of("t1"), bench.given.turn("t1").owner)
    thread, got = bench.in_background("t2")
    bench.ledger.request_cancel(id_of("t2"), bench.given.turn("t2").owner)
    thread.join()

    assert got[0].turn.turn_id == id_of("t2")
    bench.waiter._waiting.clear()
    abandoned._log_destroy_pending = False  # pyright: ignore[reportAttributeAccessIssue]
    del abandoned


@pytest.mark.parametrize("timeout", ["60", float("nan"), float("inf"), b"1", [1]])
def test_a_timeout_that_is_no_time_is_refused(bench: Bench, timeout: Any) -> None:
    bench.given.accepted("t1")

    with pytest.raises(InvalidInputError, match=r"timeout = .* give seconds or a timedelta"):
        bench.client.turn(id_of("t1")).result(timeout=timeout)


def test_a_timeout_that_has_passed_already_is_no_time(bench: Bench) -> None:
    bench.given.accepted("t1")

    with pytest.raises(TurnTimeout, match="queued at load"):
        bench.client.turn(id_of("t1")).result(timeout=-3)


def test_a_turn_that_settled_unheard_of_is_not_reported_as_late(bench: Bench) -> None:
    """What broke: between two questions a settled turn timed out with 'it is awaiting-input and goes on'."""
    bench.ledger.is_deaf = True
    bench.given.accepted("t1")
    turn = bench.client.turn(id_of("t1"))
    cancelling = threading.Timer(
        0.1, bench.given.ledger.request_cancel, (id_of("t1"), bench.given.turn("t1").owner)
    )
    cancelling.start()

    result = turn.result(timeout=0.25)
    cancelling.join()

    assert result.status == "cancelled"


def test_a_timeout_is_a_timeout_while_the_ledger_is_away(bench: Bench) -> None:
    bench.given.accepted("t1")
    turn = bench.client.turn(id_of("t1"))

    def away(asked: object) -> None:
        if len(bench.ledger.asked) > 1:
            raise StoreUnavailableError("Postgres is away")

    bench.ledger.before_answer = away
    with pytest.raises(TurnTimeout, match=r"the ledger does not answer.*Postgres is away"):
        turn.result(timeout=0.05)


def test_waiting_for_nobodys_turn_is_refused_at_once(bench: Bench) -> None:
    for turn_id in (str(new_turn_id()), "not an id"):
        with pytest.raises(InvalidInputError, match=f"turn_id = '{turn_id}' is no turn"):
            bench.client.turn(turn_id).result(timeout=60)
        with pytest.raises(InvalidInputError, match="is no turn of this owner"):
            next(bench.client.turn(turn_id).events())


def test_a_listener_whose_connection_is_ended_is_replaced(database_url: str) -> None:
    """On a real Postgres: its backend is terminated, and what settles meanwhile is found by asking."""
    stores = postgres.connect(database_url)
    given = Given(stores)
    given.accepted("t1")
    waiter = Waiter(stores.ledger, SystemClock())
    got: list[SettledTurn | None] = []
    thread = threading.Thread(target=lambda: got.append(waiter.wait(id_of("t1"), PATIENCE)))

    with psycopg.connect(database_url, autocommit=True) as operator:

        def listeners() -> list[int]:
            found = operator.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database() "
                "AND query ILIKE 'listen%' AND pid <> pg_backend_pid()"
            )
            return [pid for (pid,) in found.fetchall()]

        thread.start()
        until(listeners)
        ended = listeners()
        operator.execute("SELECT pg_terminate_backend(pid) FROM unnest(%s::int[]) AS pid", (ended,))
        stores.ledger.request_cancel(id_of("t1"), given.turn("t1").owner)
        thread.join()

    assert got[0] is not None
    stores.close()
