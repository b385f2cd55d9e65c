"""The FastAPI view of the examples, with a worker behind it."""

from __future__ import annotations

import asyncio
import importlib
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from time import monotonic
from types import ModuleType

import httpx
import psycopg
import pytest

from tests.producer.conftest import Shop
from turnchain.examples.booking.fleet import Worker

pytestmark = pytest.mark.acceptance

REQUESTS = 200


@pytest.fixture
def site(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The example's module, as a server imports it."""
    monkeypatch.setenv("TURNCHAIN_POSTGRES_URL", shop.url)
    monkeypatch.setenv("TURNCHAIN_BROKER_URL", shop.broker_url)
    monkeypatch.setenv("TURNCHAIN_KEY_PREFIX", shop.key_prefix)
    from turnchain.examples.web import fastapi_view

    return importlib.reload(fastapi_view)


@contextmanager
def standing_still(worker: Worker) -> Generator[None]:
    """The worker answers nobody meanwhile."""
    worker.running.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        worker.running.send_signal(signal.SIGCONT)


def browser(site: ModuleType) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(site.app)
    return httpx.AsyncClient(transport=transport, base_url="http://shop", timeout=60)


def test_the_view_answers_with_what_the_turn_came_to(site: ModuleType) -> None:
    async def visit() -> httpx.Response:
        async with browser(site) as client:
            return await client.post("/sessions/s1", json={"message": "hello"})

    response = asyncio.run(visit())

    assert response.status_code == 200
    told = response.json()
    assert told["status"] == "awaiting-input"
    assert told["answer"] == {"heard": "hello", "turns": 1}
    assert site.client.get(told["turn_id"]) is not None


def test_two_hundred_requests_wait_at_once_without_a_thread_each(
    site: ModuleType, shop: Shop
) -> None:
    async def accepted(connection: psycopg.Connection) -> list[str]:
        """The turns, once all of them wait."""
        query = "SELECT turn_id::text FROM turnchain_turns WHERE session_id LIKE 'many-%'"
        while len(found := connection.execute(query).fetchall()) < REQUESTS:
            await asyncio.sleep(0.02)
        return [turn_id for (turn_id,) in found]

    async def visit(connection: psycopg.Connection) -> int:
        async with browser(site) as client, asyncio.timeout(30):
            with standing_still(shop.worker):
                asked = [
                    asyncio.create_task(client.post(f"/sessions/many-{n}", json={"message": "hi"}))
                    for n in range(REQUESTS)
                ]
                turn_ids = await accepted(connection)
                threads = threading.active_count()
                assert not any(each.done() for each in asked)
                for turn_id in turn_ids:
                    await site.client.turn(turn_id).acancel()
            responses = await asyncio.gather(*asked)
        assert {each.json()["status"] for each in responses} == {"cancelled"}
        return threads

    before = threading.active_count()
    with psycopg.connect(shop.url, autocommit=True) as connection:
        during = asyncio.run(visit(connection))

    # The event loop's own pool, which is the same for one request, the database pools', and two of ours.
    assert during < before + 45


def test_a_request_that_is_given_up_leaves_its_turn_and_no_waiter(
    site: ModuleType, shop: Shop
) -> None:
    async def visit(connection: psycopg.Connection) -> str:
        query = "SELECT turn_id::text FROM turnchain_turns WHERE session_id = 'given-up'"
        async with browser(site) as client, asyncio.timeout(10):
            asking = asyncio.create_task(
                client.post("/sessions/given-up", json={"message": "hello"})
            )
            while not (waiters() and (found := connection.execute(query).fetchone())):
                await asyncio.sleep(0.01)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        return found[0]

    with standing_still(shop.worker), psycopg.connect(shop.url, autocommit=True) as connection:
        turn_id = asyncio.run(visit(connection))
        deadline = monotonic() + 5
        while waiters():
            assert monotonic() < deadline
            threading.Event().wait(0.01)

    assert site.client.turn(turn_id).result(timeout=10).ok


def waiters() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "turnchain-waiter"]
