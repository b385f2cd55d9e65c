"""Accepting on a connection that the caller has open, inside his transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import DictRow, dict_row

from turnchain.orchestrator_core.contracts import Acceptance
from turnchain.orchestrator_core.errors import (
    InvalidInputError,
    SchemaMissingError,
    TurnConflictError,
)
from turnchain.stores.conformance.exam import TENANT_A, Given, id_of, request_of
from turnchain.stores.postgres import PostgresStores
from turnchain.stores.postgres.callers import after_commit

Opened = tuple[Any, Callable[[], None], Callable[[], None]]
"""A connection in an open transaction, and how to commit and how to roll it back."""


@contextmanager
def psycopg_connection(url: str) -> Generator[Opened]:
    with psycopg.connect(url) as connection:
        yield connection, connection.commit, connection.rollback


@contextmanager
def psycopg_with_other_rows(url: str) -> Generator[Opened]:
    with psycopg.Connection[DictRow].connect(url, row_factory=dict_row) as connection:
        connection.cursor_factory = psycopg.ClientCursor[DictRow]
        yield connection, connection.commit, connection.rollback


@contextmanager
def sqlalchemy_connection(url: str) -> Generator[Opened]:
    import sqlalchemy

    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    try:
        with engine.connect() as connection:
            yield connection, connection.commit, connection.rollback
    finally:
        engine.dispose()


@contextmanager
def sqlalchemy_session(url: str) -> Generator[Opened]:
    import sqlalchemy.orm

    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    try:
        with sqlalchemy.orm.Session(engine) as session:
            yield session, session.commit, session.rollback
    finally:
        engine.dispose()


@contextmanager
def sqlalchemy_scoped_session(url: str) -> Generator[Opened]:
    import sqlalchemy.orm

    engine = sqlalchemy.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    session = sqlalchemy.orm.scoped_session(sqlalchemy.orm.sessionmaker(engine))
    try:
        yield session, session.commit, session.rollback
    finally:
        session.remove()
        engine.dispose()


@contextmanager
def django_connection(url: str) -> Generator[Opened]:
    with _django(url, {}) as connection:
        connection.set_autocommit(False)
        yield connection, connection.commit, connection.rollback


@contextmanager
def django_bound_on_the_server(url: str) -> Generator[Opened]:
    with _django(url, {"server_side_binding": True}) as connection:
        connection.set_autocommit(False)
        yield connection, connection.commit, connection.rollback


@contextmanager
def _django(url: str, options: dict[str, Any]) -> Generator[Any]:
    import django.conf
    from django.db.utils import ConnectionHandler

    if not django.conf.settings.configured:
        django.conf.settings.configure(USE_TZ=False, LOGGING_CONFIG=None)
        django.setup()
    given = conninfo_to_dict(url)
    database = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": given["dbname"],
        "USER": given.get("user", ""),
        "PASSWORD": given.get("password", ""),
        "HOST": given.get("host", ""),
        "PORT": given.get("port", ""),
        "OPTIONS": options,
    }
    handler = ConnectionHandler({"default": database})
    with closing(handler["default"]) as connection:
        yield connection


HOSTS = [
    psycopg_connection,
    psycopg_with_other_rows,
    sqlalchemy_connection,
    sqlalchemy_session,
    sqlalchemy_scoped_session,
    django_connection,
    django_bound_on_the_server,
]
every_host = pytest.mark.parametrize("host", HOSTS, ids=lambda host: host.__name__)
Host = Callable[[str], AbstractContextManager[Opened]]


def accept(stores: PostgresStores, connection: Any, turn: str = "t1", **fields: Any) -> Acceptance:
    request = request_of(turn, **fields)
    return stores.ledger.accept(request, request_hash=f"hash of {turn}", connection=connection)


@every_host
def test_a_turn_commits_with_the_callers_writes(
    host: Host, stores: PostgresStores, database_url: str
) -> None:
    deadline = datetime(2050, 1, 2, 3, 4, 5, tzinfo=UTC)

    with host(database_url) as (connection, commit, _):
        accepted = accept(
            stores,
            connection,
            owner=TENANT_A,
            deadline=deadline,
            idempotency_key="100%",
            history=[{"role": "user", "content": "50 % :off %(x)s"}],
        )
        assert stores.ledger.get(id_of("t1")) is None
        commit()

    assert accepted.created
    stored = stores.ledger.get(id_of("t1"))
    assert stored == accepted.turn
    assert stored is not None
    assert stored.deadline == deadline


@every_host
def test_a_turn_vanishes_with_the_callers_writes(
    host: Host, stores: PostgresStores, database_url: str
) -> None:
    with host(database_url) as (connection, _, rollback):
        accept(stores, connection)
        rollback()

    assert stores.ledger.get(id_of("t1")) is None


@every_host
def test_a_repetition_leaves_the_transaction_usable(
    host: Host, stores: PostgresStores, given: Given, database_url: str
) -> None:
    given.accepted("t1", idempotency_key="key")

    with host(database_url) as (connection, commit, _):
        assert accept(stores, connection, idempotency_key="key").created is False
        with pytest.raises(TurnConflictError):
            accept(stores, connection, "t2", idempotency_key="key")
        assert accept(stores, connection, "t3").created
        commit()

    assert stores.ledger.get(id_of("t3")) is not None


@every_host
def test_a_missing_schema_is_typed(
    host: Host, stores: PostgresStores, empty_database_url: str
) -> None:
    with host(empty_database_url) as (connection, _, rollback):
        with pytest.raises(SchemaMissingError, match="turnchain schema"):
            accept(stores, connection)
        rollback()


def test_a_callers_own_cursor_settings_stay(stores: PostgresStores, database_url: str) -> None:
    with psycopg_with_other_rows(database_url) as (connection, _, _):
        accept(stores, connection)

        assert connection.execute("SELECT 1 AS one").fetchone() == {"one": 1}


@pytest.mark.parametrize("connection", ["postgresql://…", object(), 7])
def test_what_is_no_connection_is_refused(stores: PostgresStores, connection: object) -> None:
    with pytest.raises(InvalidInputError, match="is not a connection that can be used"):
        accept(stores, connection)


def test_asynchronous_connections_are_refused_with_the_way_out(
    stores: PostgresStores, database_url: str
) -> None:
    # SQLAlchemy's own needs greenlet, which is not there.
    session = type("AsyncSession", (), {"__module__": "sqlalchemy.ext.asyncio.session"})()
    with pytest.raises(InvalidInputError, match="run_sync"):
        accept(stores, session)

    async def on_psycopg() -> None:
        async with await psycopg.AsyncConnection.connect(database_url) as connection:
            accept(stores, connection)

    with pytest.raises(InvalidInputError, match="is asynchronous"):
        asyncio.run(on_psycopg())


def test_another_database_is_refused(stores: PostgresStores) -> None:
    import sqlalchemy

    engine = sqlalchemy.create_engine("sqlite://")
    refused = pytest.raises(InvalidInputError, match="speaks to sqlite")
    with engine.connect() as connection, refused:
        accept(stores, connection)
    engine.dispose()


def test_without_a_connection_what_comes_after_commit_runs_at_once() -> None:
    told: list[str] = []

    after_commit(None, lambda: told.append("now"))

    assert told == ["now"]


def test_a_session_tells_after_its_commit(stores: PostgresStores, database_url: str) -> None:
    told: list[str] = []
    for host in (sqlalchemy_session, sqlalchemy_scoped_session):
        told.clear()
        with host(database_url) as (session, commit, _):
            accept(stores, session, host.__name__)
            after_commit(session, lambda: told.append("committed"))
            assert told == []
            commit()
            assert told == ["committed"]
            commit()
    assert told == ["committed"]


def test_django_without_a_transaction_tells_at_once(database_url: str) -> None:
    told: list[str] = []

    with _django(database_url, {}) as connection:
        after_commit(connection, lambda: told.append("at once"))

    assert told == ["at once"]
