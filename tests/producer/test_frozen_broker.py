"""A broker that is frozen, away or silent: what is enqueued is accepted all the same, and soon."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from uuid import uuid4

import psycopg
import pytest
import redis

import turnchain
from tests.producer.conftest import ROOT
from turnchain import SessionClient, Turn, TurnStatus
from turnchain.examples.booking.fleet import Worker
from turnchain.orchestrator_core.contracts import Stage
from turnchain.workers.embedded import Server, start_valkey, temporary_directory
from turnchain.workers.publishing import PUBLISH_DEADLINE

ALLOWED = PUBLISH_DEADLINE.total_seconds() + 1
QUEUE = "turnchain:turns"


@pytest.fixture
def broker() -> Generator[Server]:
    """A Valkey of this test's own, to be frozen."""
    with temporary_directory() as directory:
        server = start_valkey(directory / "valkey", durable=False)
        yield server
        server.process.send_signal(signal.SIGCONT)
        server.stop()


@contextmanager
def frozen(server: Server) -> Generator[None]:
    server.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.process.send_signal(signal.SIGCONT)


def enqueue(client: SessionClient) -> Turn:
    return client.enqueue("echo", "hi", session_id=uuid4().hex, history=[])


def timed(client: SessionClient) -> tuple[Turn, float]:
    began = monotonic()
    return enqueue(client), monotonic() - began


def published(server: Server) -> int:
    with redis.Redis.from_url(server.url) as client:
        return client.llen(QUEUE)


def until(holds: object, seconds: float = 8.0) -> None:
    assert callable(holds)
    deadline = monotonic() + seconds
    while not holds():
        assert monotonic() < deadline
        threading.Event().wait(0.02)


def is_accepted(turn: Turn) -> bool:
    record = turn.get()
    return record is not None and record.status in (TurnStatus.QUEUED, TurnStatus.RUNNING)


def test_a_frozen_broker_costs_a_deadline_and_no_turn(database_url: str, broker: Server) -> None:
    client = turnchain.connect(database_url, broker=broker.url, max_in_flight=100)
    enqueue(client)
    assert published(broker) == 1

    with frozen(broker):
        turns = [timed(client) for _ in range(3)]

    assert all(took < ALLOWED for _, took in turns)
    assert all(is_accepted(turn) for turn, _ in turns)


def test_a_broker_that_was_frozen_from_the_start_costs_no_more(
    database_url: str, broker: Server
) -> None:
    client = turnchain.connect(database_url, broker=broker.url, max_in_flight=100)

    with frozen(broker):
        turn, took = timed(client)

    assert took < ALLOWED
    assert is_accepted(turn)


def test_threads_that_enqueue_on_a_frozen_broker_do_not_queue_up_behind_each_other(
    database_url: str, broker: Server
) -> None:
    client = turnchain.connect(database_url, broker=broker.url, max_in_flight=100, pool_size=8)
    enqueue(client)

    with frozen(broker), ThreadPoolExecutor(8) as threads:
        began = monotonic()
        turns = list(threads.map(lambda _: enqueue(client), range(8)))
        took = monotonic() - began

    assert took < ALLOWED + 1
    assert all(is_accepted(turn) for turn in turns)


def test_a_broker_that_thaws_is_published_to_again(database_url: str, broker: Server) -> None:
    client = turnchain.connect(database_url, broker=broker.url, max_in_flight=100)
    with frozen(broker):
        enqueue(client)
    before = published(broker)

    def is_published() -> bool:
        enqueue(client)
        return published(broker) > before

    until(is_published)


@pytest.mark.parametrize("scheme", ["redis://127.0.0.1:{}/0", "amqp://guest@127.0.0.1:{}//"])
def test_a_port_where_nobody_listens_costs_less_than_a_deadline(
    database_url: str, scheme: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    client = turnchain.connect(database_url, broker=scheme.format(port), max_in_flight=100)

    turns = [timed(client) for _ in range(3)]

    assert all(took < PUBLISH_DEADLINE.total_seconds() for _, took in turns)
    assert all(is_accepted(turn) for turn, _ in turns)


@pytest.mark.parametrize("scheme", ["redis://127.0.0.1:{}/0", "amqp://guest@127.0.0.1:{}//"])
def test_a_server_that_takes_connections_and_says_nothing_costs_a_deadline(
    database_url: str, scheme: str
) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        port = listener.getsockname()[1]
        client = turnchain.connect(database_url, broker=scheme.format(port), max_in_flight=100)

        turn, took = timed(client)

    assert took < ALLOWED
    assert is_accepted(turn)


@pytest.mark.acceptance
def test_a_worker_keeps_its_leases_while_the_broker_is_frozen(
    database_url: str, broker: Server, tmp_path: Path
) -> None:
    """What broke: the thread that renews leases also publishes, and hung there until its turns were taken over."""
    environ = {
        **os.environ,
        "TURNCHAIN_POSTGRES_URL": database_url,
        "TURNCHAIN_BROKER_URL": broker.url,
        "TURNCHAIN_ORCHESTRATORS": "tests.producer.bots",
        "TURNCHAIN_LEASE": "2",
        "TURNCHAIN_HOUSEKEEPING": "0.5",
        "TURNCHAIN_SWEEP_INTERVAL": "0.5",
        "TURNCHAIN_REWAKE": "0.5",
        "PYTHONPATH": str(ROOT),
    }
    worker = Worker("frozen", environ, tmp_path / "log", pool="threads", concurrency=4)
    worker.start()
    client = turnchain.connect(database_url, broker=broker.url)
    gate = tmp_path / "gate"
    try:
        worker.wait_until_ready()
        turn = client.enqueue("wait", {"until": str(gate)}, session_id="s", history=[])
        until(lambda: (at := turn.get()) and at.stage is Stage.DISPATCH and at.lease_owner)

        with frozen(broker):
            others = [enqueue(client)]
            until_renewed(database_url, turn, times=5)
            gate.touch()
            until(lambda: (at := turn.get()) and at.stage is not Stage.DISPATCH)

        results = [each.result(timeout=15) for each in (turn, *others)]
    finally:
        gate.touch()
        worker.terminate()

    assert all(result.ok for result in results)
    record = turn.get()
    assert record is not None
    assert (record.takeovers, record.fence) == (0, 0)


def until_renewed(url: str, turn: Turn, times: int) -> None:
    """Wait until the turn's lease has been prolonged so often, always before it had run out."""
    seen: set[object] = set()
    with psycopg.connect(url, autocommit=True) as operator:

        def is_renewed() -> bool:
            row = operator.execute(
                "SELECT lease_expires_at, lease_expires_at > clock_timestamp() FROM turnchain_turns "
                "WHERE turn_id = %s",
                (turn.turn_id,),
            ).fetchone()
            assert row is not None
            assert row[1], "the lease has run out"
            seen.add(row[0])
            return len(seen) > times

        until(is_renewed)
