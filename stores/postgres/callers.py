"""A caller's own open connection: our statements inside its transaction.

The turn then commits or vanishes with what the caller writes. Taken are a psycopg `Connection`, a
SQLAlchemy `Connection` or `Session`, and Django's `connection`; none of these libraries is imported
here, because whoever passes a connection has imported his already. Results are one JSON text, and
parameters are text, numbers and instants, which every one of them sends and reads alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, Protocol, cast

import psycopg
from psycopg.rows import tuple_row

from turnchain.orchestrator_core.errors import InvalidInputError
from turnchain.stores.postgres.connection import Connections, Params
from turnchain.stores.postgres.errors import translating
from turnchain.stores.postgres.statements import STATEMENTS

_WHERE: Final = "Postgres, on the connection given,"
_PARAMETER: Final = re.compile(r"%\((\w+)\)s")

_PSYCOPG: Final = f"{psycopg.Connection.__module__}.Connection"
_PSYCOPG_ASYNC: Final = f"{psycopg.AsyncConnection.__module__}.AsyncConnection"
_SQLALCHEMY_CONNECTION: Final = "sqlalchemy.engine.base.Connection"
_SQLALCHEMY_SESSIONS: Final = frozenset(
    {"sqlalchemy.orm.session.Session", "sqlalchemy.orm.scoping.scoped_session"}
)
_SQLALCHEMY_ASYNC: Final = frozenset(
    {
        "sqlalchemy.ext.asyncio.engine.AsyncConnection",
        "sqlalchemy.ext.asyncio.session.AsyncSession",
        "sqlalchemy.ext.asyncio.scoping.async_scoped_session",
    }
)
_DJANGO: Final = frozenset(
    {"django.db.backends.base.base.BaseDatabaseWrapper", "django.utils.connection.ConnectionProxy"}
)


class Texts(Protocol):
    """Carries out a statement that returns at most one text."""

    def __call__(self, name: str, params: Params) -> str | None:
        """The text, or None if there was no row."""
        ...


def own(connections: Connections) -> Texts:
    """On our own durable connection, each statement a transaction of its own."""

    def run(name: str, params: Params) -> str | None:
        rows = connections.run_safely(name, params, durable=True)
        return next((cast("str", text) for row in rows for text in row.values()), None)

    return run


def of_caller(connection: Any) -> Texts:
    """On the caller's connection, inside its open transaction.

    Raises:
        InvalidInputError: the object is no connection that can be used, and why.
    """
    kinds = _kinds(connection)
    if _PSYCOPG in kinds:
        return _psycopg(connection)
    if _PSYCOPG_ASYNC in kinds:
        raise _refused(
            connection,
            "is asynchronous: pass a psycopg.Connection, or enqueue after the commit without one",
        )
    if kinds & _SQLALCHEMY_ASYNC:
        raise _refused(
            connection,
            "is asynchronous: call `await session.run_sync(lambda sync: client.enqueue(…, "
            "connection=sync))`",
        )
    if kinds & _SQLALCHEMY_SESSIONS:
        # Begins the session's transaction if it has none yet, as its first query would.
        return _sqlalchemy(connection.connection())
    if _SQLALCHEMY_CONNECTION in kinds:
        return _sqlalchemy(connection)
    if kinds & _DJANGO:
        return _django(connection)
    raise _refused(
        connection,
        "is not a connection that can be used: pass a psycopg Connection, a SQLAlchemy Connection "
        "or Session, or Django's connection",
    )


def _psycopg(connection: psycopg.Connection[Any]) -> Texts:
    def run(name: str, params: Params) -> str | None:
        # Neither the caller's row factory nor his kind of cursor may change what comes back.
        with psycopg.Cursor(connection, row_factory=tuple_row) as cursor:
            return _first(cursor.execute(STATEMENTS[name], params).fetchone())

    return _checked(run, psycopg.Error)


def _sqlalchemy(connection: Any) -> Texts:
    if connection.dialect.name != "postgresql":
        raise _refused(connection, f"speaks to {connection.dialect.name}, not to Postgres")
    text = import_module("sqlalchemy").text

    def run(name: str, params: Params) -> str | None:
        # In brackets, or its colon and the cast's would be read as one.
        named = _PARAMETER.sub(r"(:\1)", STATEMENTS[name])
        return _first(connection.execute(text(named), dict(params)).fetchone())

    return _checked(run, import_module("sqlalchemy.exc").DBAPIError)


def _django(connection: Any) -> Texts:
    if connection.vendor != "postgresql":
        raise _refused(connection, f"speaks to {connection.vendor}, not to Postgres")

    def run(name: str, params: Params) -> str | None:
        with connection.cursor() as cursor:
            cursor.execute(STATEMENTS[name], dict(params))
            return _first(cursor.fetchone())

    return _checked(run, import_module("django.db").Error)


def _checked(run: Callable[[str, Params], str | None], kind: type[Exception]) -> Texts:
    def checked(name: str, params: Params) -> str | None:
        with translating(kind, _WHERE):
            return run(name, params)

    return checked


def _first(row: Any) -> str | None:
    return None if row is None else cast("str", row[0])


def _refused(connection: Any, reason: str) -> InvalidInputError:
    kind = f"{type(connection).__module__}.{type(connection).__qualname__}"
    return InvalidInputError(f"connection: a {kind} {reason}", {"field": "connection"})


def after_commit(connection: Any, then: Callable[[], None]) -> None:
    """As `AfterCommit`: at once without a connection, after the commit where the library tells.

    Django runs it on commit, a SQLAlchemy Session after its next one. A psycopg or SQLAlchemy
    connection cannot tell: `then` is left to the caller or to the sweep.
    """
    if connection is None:
        then()
        return
    kinds = _kinds(connection)
    if kinds & _DJANGO:
        connection.on_commit(then, robust=True)
    elif kinds & _SQLALCHEMY_SESSIONS:
        session = connection() if callable(connection) else connection  # a scoped_session's own
        event = import_module("sqlalchemy.event")

        waiting = [then]

        def told(session: Any) -> None:
            # Also told of a savepoint's release, with which nothing has committed yet.
            if waiting and not session.in_nested_transaction():
                waiting.pop()()

        event.listen(session, "after_commit", told)


def _kinds(connection: Any) -> set[str]:
    """The classes of the object, by name: asking `isinstance` would import their libraries."""
    return {f"{kind.__module__}.{kind.__qualname__}" for kind in type(connection).__mro__}
