"""Enqueueing on the caller's own connection: the turn runs after the commit, or was never there."""

from __future__ import annotations

import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from time import monotonic
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.orm import Session

from tests.producer.conftest import Shop
from turnchain import SessionClient
from turnchain.orchestrator_core.contracts import Wake
from turnchain.orchestrator_core.errors import InvalidInputError

pytestmark = pytest.mark.acceptance

# Far apart, so that only what the producer publishes can have woken a worker.
SETTINGS = {"TURNCHAIN_SWEEP_INTERVAL": "600"}
PATIENCE = 10.0


@contextmanager
def engine_of(url: str) -> Generator[sqlalchemy.Engine]:
    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    try:
        yield engine
    finally:
        engine.dispose()


def turns_of(shop: Shop, session: str) -> int:
    with psycopg.connect(shop.url) as connection:
        row = connection.execute(
            "SELECT (SELECT count(*) FROM turnchain_turns WHERE session_id = %(id)s) "
            "+ (SELECT count(*) FROM turnchain_turn_requests AS r "
            "   WHERE NOT EXISTS (SELECT FROM turnchain_turns AS t WHERE t.turn_id = r.turn_id))",
            {"id": session},
        ).fetchone()
    assert row is not None
    return row[0]


@pytest.fixture
def session_id() -> str:
    return uuid4().hex


def test_psycopg_committed_and_published_runs(
    shop: Shop, shop_client: SessionClient, session_id: str
) -> None:
    with psycopg.connect(shop.url) as connection:
        turn = shop_client.enqueue(
            "echo", "hi", session_id=session_id, history=[], connection=connection
        )
        assert turn.get() is None
        connection.commit()

    turn.publish()

    assert turn.result(timeout=PATIENCE).ok


def test_psycopg_rolled_back_leaves_nothing(
    shop: Shop, shop_client: SessionClient, session_id: str
) -> None:
    with psycopg.connect(shop.url) as connection:
        turn = shop_client.enqueue(
            "echo", "hi", session_id=session_id, history=[], connection=connection
        )
        connection.rollback()

    turn.publish()

    assert turns_of(shop, session_id) == 0
    with pytest.raises(InvalidInputError, match="whether the transaction that enqueued it has"):
        turn.result(timeout=PATIENCE)


def test_a_turn_is_refused_in_a_transaction_that_goes_on(
    shop: Shop, shop_client: SessionClient, session_id: str
) -> None:
    """A refusal is no error of the caller's transaction: his own writes commit."""
    with psycopg.connect(shop.url) as connection:
        connection.execute("CREATE TEMPORARY TABLE own (n int)")
        with pytest.raises(InvalidInputError):
            shop_client.enqueue("echo", session_id=session_id, history=[], connection=connection)
        connection.execute("INSERT INTO own VALUES (1)")
        connection.commit()
        assert connection.execute("SELECT count(*) FROM own").fetchone() == (1,)


def test_sqlalchemys_connection_committed_and_published_runs(
    shop: Shop, shop_client: SessionClient, session_id: str
) -> None:
    with engine_of(shop.url) as engine, engine.begin() as connection:
        turn = shop_client.enqueue(
            "echo", "hi", session_id=session_id, history=[], connection=connection
        )

    turn.publish()

    assert turn.result(timeout=PATIENCE).ok


def test_sqlalchemys_connection_rolled_back_leaves_nothing(
    shop: Shop, shop_client: SessionClient, session_id: str
) -> None:
    with engine_of(shop.url) as engine, engine.connect() as connection:
        shop_client.enqueue("echo", "hi", session_id=session_id, history=[], connection=connection)
        connection.rollback()

    assert turns_of(shop, session_id) == 0


def test_sqlalchemys_session_wakes_a_worker_at_its_commit(
    shop: Shop, shop_client: SessionClient, session_id: str
) -> None:
    with engine_of(shop.url) as engine, Session(engine) as session:
        turn = shop_client.enqueue(
            "echo", "hi", session_id=session_id, history=[], connection=session
        )
        assert turn.get() is None
        session.commit()

        assert turn.result(timeout=PATIENCE).ok


def test_sqlalchemys_session_rolled_back_leaves_nothing(
    shop: Shop, shop_client: SessionClient, session_id: str
) -> None:
    with engine_of(shop.url) as engine, Session(engine) as session:
        shop_client.enqueue("echo", "hi", session_id=session_id, history=[], connection=session)
        session.rollback()

    assert turns_of(shop, session_id) == 0


class Outbox:
    """Takes wakes in place of a broker."""

    def __init__(self) -> None:
        self.wakes: list[Wake] = []

    def publish(self, wakes: Sequence[Wake]) -> None:
        self.wakes += wakes


def test_a_savepoint_is_not_the_commit_that_wakes_a_worker(
    client: SessionClient, database_url: str, session_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox = Outbox()
    monkeypatch.setattr(client, "_publisher", outbox)

    with engine_of(database_url) as engine, Session(engine) as session:
        with session.begin_nested():
            turn = client.enqueue(
                "echo", "hi", session_id=session_id, history=[], connection=session
            )
        assert outbox.wakes == []
        session.commit()

    assert [wake.turn_id for wake in outbox.wakes] == [turn.turn_id]


def test_a_transaction_that_stays_open_holds_up_nobody(
    shop: Shop, shop_client: SessionClient, session_id: str
) -> None:
    """A view that enqueues and then takes its time: others enqueue and are answered, in the same session, too."""
    with psycopg.connect(shop.url) as connection:
        slow = shop_client.enqueue(
            "echo", "slow", session_id=session_id, history=[], connection=connection
        )
        began = monotonic()
        others = [
            shop_client.enqueue("echo", "quick", session_id=other, history=[])
            for other in (session_id, uuid4().hex)
        ]
        results = [other.result(timeout=PATIENCE) for other in others]
        took = monotonic() - began
        connection.commit()

    slow.publish()
    assert took < 3
    assert all(result.ok for result in results)
    assert slow.result(timeout=PATIENCE).data["turns"] == 2


def test_one_turn_on_two_connections_is_one_turn(
    shop: Shop, shop_client: SessionClient, session_id: str
) -> None:
    """The second of two that use one idempotency key waits for the first transaction, and then finds its turn."""

    def enqueue(connection: psycopg.Connection) -> str:
        return shop_client.enqueue(
            "echo",
            "hi",
            session_id=session_id,
            history=[],
            idempotency_key="once",
            connection=connection,
        ).turn_id

    with psycopg.connect(shop.url) as first, psycopg.connect(shop.url) as second:
        turn_id = enqueue(first)
        got: list[str] = []
        other = threading.Thread(target=lambda: got.append(enqueue(second)))
        other.start()
        first.commit()
        other.join(PATIENCE)
        second.commit()

    assert got == [turn_id]
    assert turns_of(shop, session_id) == 1


@pytest.mark.parametrize("connection", ["postgresql://host", 7, object()])
def test_what_is_no_connection_is_refused(
    shop: Shop, shop_client: SessionClient, session_id: str, connection: object
) -> None:
    with pytest.raises(InvalidInputError, match=r"connection: .* pass a psycopg Connection"):
        shop_client.enqueue("echo", "hi", session_id=session_id, history=[], connection=connection)

    assert turns_of(shop, session_id) == 0
