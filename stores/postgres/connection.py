"""Connections: two small pools a process, opened by the first use after the fork.

The durable pool waits for the disk at every commit. The relaxed one does not: a crash of the
server may take back its last commits, so it carries what repeating costs only a pure stage, and
all that reads. A fence that was raised never goes back: whatever raises one is durable. [DESIGN 4]
"""

from __future__ import annotations

import os
import re
import select
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import DictRow, dict_row
from psycopg_pool import ConnectionPool, PoolTimeout

from turnchain.orchestrator_core.errors import SettingsError, StoreUnavailableError
from turnchain.stores.postgres.errors import is_passing, translating
from turnchain.stores.postgres.statements import STATEMENTS, joined
from turnchain.stores.retrying import repeating

Params = Mapping[str, Any]
Step = tuple[str, Params]
Pool = ConnectionPool[psycopg.Connection[DictRow]]

_CONNECT: Final = {
    "fallback_application_name": "turnchain",
    "connect_timeout": 3,
    # A host that vanished is noticed in half a minute, not in two hours.
    "keepalives": 1,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
_MISREAD: Final = re.compile(r"@| .*[^\d,]")
_PLAN_CHANGED: Final = "0A000"
"""A table got a column since a statement was prepared; the statement did not run."""
_WAIT: Final = 2.5
"""Seconds to wait for a free or new connection; the diagnosis of a failure comes on top."""


@dataclass(frozen=True, slots=True)
class _Pools:
    durable: Pool
    relaxed: Pool


class Connections:
    """What the stores run their statements on. Safe for threads, and in a child of a fork."""

    def __init__(
        self, url: str, *, max_size: int, lock_timeout: timedelta, read_only: bool = False
    ) -> None:
        self._conninfo, self.where = _parsed(url)
        self._max_size = max_size
        self._lock_timeout = lock_timeout
        self._read_only = read_only
        # A child of a fork finds its parent's pools here and leaves them alone: neither using nor
        # closing them, since both would speak on the parent's sockets.
        self._by_pid: dict[int, _Pools] = {}

    def run(self, name: str, params: Params, *, durable: bool = False) -> list[DictRow]:
        """Carry out one statement, a transaction of its own."""
        with self._borrowed(durable) as connection:
            return _rows(connection.execute(STATEMENTS[name], params))

    def run_safely(self, name: str, params: Params, *, durable: bool = False) -> list[DictRow]:
        """As `run`, and again after a passing error: for statements that may be repeated."""
        return repeating(is_passing)(self.run, name, params, durable=durable)

    def run_joined(self, calls: Sequence[Step], *, durable: bool) -> None:
        """Carry out several statements, each one call of a function, as one: one transaction, one round trip.

        They run in this order, and one that raises takes all of them back.
        """
        params = {
            f"{number}_{key}": value
            for number, (_, own) in enumerate(calls)
            for key, value in own.items()
        }
        with self._borrowed(durable) as connection:
            connection.execute(joined(tuple(name for name, _ in calls)), params)

    def run_all(self, steps: Sequence[Step], *, durable: bool) -> list[list[DictRow]]:
        """Carry out several statements as one transaction, sent to the server in one piece.

        Returns the rows of each. A statement that fails ends it.
        """
        with self._borrowed(durable) as connection:
            failed: psycopg.Error | None = None
            cursors: list[psycopg.Cursor[DictRow]] = []
            try:
                with connection.pipeline():
                    try:
                        connection.execute(STATEMENTS["begin"])
                        for name, params in steps:
                            cursors.append(connection.execute(STATEMENTS[name], params))
                        connection.execute(STATEMENTS["commit"])
                    except psycopg.Error as error:
                        # Leave the pipeline in peace: it logs what is raised through it.
                        failed = error
            except psycopg.Error as error:
                failed = failed or error
            if failed:
                with suppress(psycopg.Error):  # what went wrong first is what counts
                    connection.rollback()
                raise failed
            return [_rows(cursor) for cursor in cursors]

    @contextmanager
    def alone(self) -> Generator[psycopg.Connection[DictRow]]:
        """A connection outside the pools, for what occupies one as long as it lasts."""
        with translating(psycopg.Error, self.where):
            connection = psycopg.Connection[DictRow].connect(
                self._conninfo, autocommit=True, row_factory=dict_row
            )
        with connection:
            yield connection

    def close(self) -> None:
        """Close this process's pools. A later use opens new ones."""
        pools = self._by_pid.pop(os.getpid(), None)
        if pools:
            pools.durable.close()
            pools.relaxed.close()

    @contextmanager
    def _borrowed(self, durable: bool) -> Generator[psycopg.Connection[DictRow]]:
        pools = self._by_pid.get(os.getpid()) or self._by_pid.setdefault(
            os.getpid(), _Pools(durable=self._pool("on"), relaxed=self._pool("off"))
        )
        pool = pools.durable if durable else pools.relaxed
        pool.open()
        try:
            connection = _alive(pool)
        except PoolTimeout as error:
            raise self._diagnosed() from error
        try:
            with translating(psycopg.Error, self.where):
                yield connection
        except StoreUnavailableError as error:
            if error.context.get("sqlstate") == _PLAN_CHANGED:
                connection.close()  # all that it has prepared would be refused for as long as it lives
            raise
        finally:
            pool.putconn(connection)

    def _pool(self, synchronous_commit: str) -> Pool:
        def configure(connection: psycopg.Connection[DictRow]) -> None:
            params = {
                "synchronous_commit": synchronous_commit,
                "lock_timeout_ms": round(self._lock_timeout.total_seconds() * 1000),
                "read_only": self._read_only,
            }
            connection.execute(STATEMENTS["set_session"], params)

        return ConnectionPool(
            self._conninfo,
            connection_class=psycopg.Connection[DictRow],
            kwargs={"autocommit": True, "row_factory": dict_row},
            min_size=0,
            max_size=self._max_size,
            open=False,
            configure=configure,
            timeout=_WAIT,
            # Give up soon: attempts that back off would keep a server that is up again waiting.
            reconnect_timeout=_WAIT,
            num_workers=1,
            name=f"turnchain-{synchronous_commit}",
        )

    def _diagnosed(self) -> StoreUnavailableError:
        """Why there is no connection: the pool only knows that none came in time."""
        try:
            psycopg.connect(self._conninfo, connect_timeout=2).close()
        except psycopg.Error as error:
            reason = " ".join(str(error).split())
            return StoreUnavailableError(
                f"{self.where} cannot be reached: {reason}", {"server": self.where}
            )
        return StoreUnavailableError(
            f"{self.where}: all {self._max_size} connections of this process are busy; give the "
            "stores as many as there are threads",
            {"server": self.where, "max_size": self._max_size},
        )


def _rows(cursor: psycopg.Cursor[DictRow]) -> list[DictRow]:
    # Not `description`, which describes every column to be thrown away.
    return cursor.fetchall() if cursor.pgresult and cursor.pgresult.nfields else []


def _alive(pool: Pool) -> psycopg.Connection[DictRow]:
    """A connection that the server has not hung up on.

    Not by a `check=` of the pool: over each dead connection that sleeps a second, then two (psycopg_pool 3.3), and
    after a restart all idle ones are dead, so that the first callers timed out in front of a server that was up.
    """
    while _is_dead(connection := pool.getconn()):
        connection.close()
        pool.putconn(connection)  # which has a new one made in its place
    return connection


def _is_dead(connection: psycopg.Connection[Any]) -> bool:
    # An idle connection has nothing to read unless the server has hung up (or said something
    # harmless): so the healthy case costs a system call, not a round trip.
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    if poll.poll(0):
        try:
            ConnectionPool.check_connection(connection)
        except psycopg.Error:
            return True
    return False


def _parsed(url: str) -> tuple[str, str]:
    """The connection string with our settings under the caller's, and what to call the server."""
    # SQLAlchemy's spelling of the same address.
    plain = url.replace("postgresql+psycopg://", "postgresql://", 1)
    try:
        given = conninfo_to_dict(plain)
    except psycopg.Error:
        given = None
    # An unescaped sign in a password moves a part of it into the host or the port.
    if given is None or _MISREAD.search(f"{given.get('host')} {given.get('port') or 5432}"):
        # Neither the URL nor the driver's text is quoted: both may hold the password.
        raise SettingsError(
            "the Postgres URL cannot be read: expected postgresql://user:password@host:port/name, "
            "with signs like @ : / in a password written as %40 %3A %2F"
        )
    host = given.get("host") or given.get("hostaddr") or "the local socket"
    name = given.get("dbname") or given.get("user") or "the default"
    where = f"Postgres at {host}:{given.get('port') or 5432}, database {name}"
    return make_conninfo("", **{**_CONNECT, **given}), where
