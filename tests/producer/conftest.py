"""A shop in production: a database, a broker and one worker for a whole module; and a client for each test."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

import turnchain
from tests.servers import database, prefix
from turnchain import SessionClient
from turnchain.examples.booking.fleet import Worker

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Shop:
    """Where turns are enqueued, and the worker that runs them."""

    url: str
    broker_url: str
    key_prefix: str
    worker: Worker

    def connect(self) -> SessionClient:
        return turnchain.connect(self.url, broker=self.broker_url, key_prefix=self.key_prefix)


@pytest.fixture(scope="module")
def shop(
    request: pytest.FixtureRequest,
    postgres_url: str,
    redis_url: str,
    _template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Generator[Shop]:
    """One worker with eight threads. A module's `SETTINGS` are variables of its environment."""
    with ExitStack() as stack:
        url = stack.enter_context(database(postgres_url, template=_template))
        key_prefix = stack.enter_context(prefix(redis_url))
        environ = {
            **os.environ,
            "TURNCHAIN_POSTGRES_URL": url,
            "TURNCHAIN_BROKER_URL": redis_url,
            "TURNCHAIN_KEY_PREFIX": key_prefix,
            "TURNCHAIN_ORCHESTRATORS": "tests.producer.bots",
            "PYTHONPATH": str(ROOT),
            **getattr(request.module, "SETTINGS", {}),
        }
        log = tmp_path_factory.mktemp("shop") / "worker.log"
        worker = Worker("shop", environ, log, pool="threads", concurrency=8)
        worker.start()
        stack.callback(worker.terminate)
        worker.wait_until_ready()
        yield Shop(url, redis_url, key_prefix, worker)


@pytest.fixture(scope="module")
def module_database_url(postgres_url: str, _template: str) -> Generator[str]:
    """A database for all tests of a module, with the schema and no rows."""
    with database(postgres_url, template=_template) as url:
        yield url


@pytest.fixture(scope="module")
def module_key_prefix(redis_url: str) -> Generator[str]:
    """What every key of a module's tests begins with."""
    with prefix(redis_url) as own:
        yield own


@pytest.fixture
def shop_client(shop: Shop) -> SessionClient:
    """A producer of the shop."""
    return shop.connect()


@pytest.fixture
def client(database_url: str, redis_url: str, key_prefix: str) -> SessionClient:
    """A producer whose turns nobody runs."""
    return turnchain.connect(database_url, broker=redis_url, key_prefix=key_prefix)
