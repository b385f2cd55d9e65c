"""What the servers count: statements, commits, fsyncs, bytes."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, LiteralString

import psycopg
from psycopg.rows import dict_row

from benchmarks.stand import Place, redis_client

# PostgreSQL 18 moved the flushes from one view to the other.
FSYNCS_18 = "SELECT coalesce(sum(fsyncs), 0) FROM pg_stat_io WHERE object = 'wal'"
FSYNCS_14 = "SELECT wal_sync FROM pg_stat_wal"
COMMITS = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
WAL_BYTES = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')"
STATEMENTS = """
SELECT query, calls, total_exec_time AS milliseconds FROM pg_stat_statements AS s
JOIN pg_database AS d ON d.oid = s.dbid
WHERE d.datname = current_database() AND query !~* '^(begin|commit|rollback|set|discard|vacuum)'
ORDER BY total_exec_time DESC
"""
TABLES = """
SELECT relname AS name, pg_total_relation_size(oid) AS size FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY relname
"""


@dataclass(frozen=True, slots=True)
class Statement:
    """One kind of statement: how often, and how long the server took in all."""

    query: str
    calls: int
    milliseconds: float


@dataclass(frozen=True, slots=True)
class Lagging:
    """Counters that a backend tells when it ends, or some seconds later. Only differences mean something."""

    commits: int
    fsyncs: int


@dataclass(frozen=True, slots=True)
class Immediate:
    """Counters that are always up to date. Only differences mean something."""

    wal_bytes: int
    redis_commands: int


class Counters:
    """Reads them. Fsyncs, WAL and Redis commands are the servers', so nobody else may work there meanwhile."""

    def __init__(self, connection: psycopg.Connection[dict[str, Any]], client: Any) -> None:
        self._connection = connection
        self._client = client

    def lagging(self) -> Lagging:
        """Read when those who are to be counted have gone."""
        is_18 = self._connection.info.server_version >= 180000
        return Lagging(
            commits=self._number(COMMITS), fsyncs=self._number(FSYNCS_18 if is_18 else FSYNCS_14)
        )

    def immediate(self) -> Immediate:
        """Read at any time."""
        commands = self._client.info("stats")["total_commands_processed"]
        return Immediate(wal_bytes=self._number(WAL_BYTES), redis_commands=int(commands))

    def begin_statements(self) -> bool:
        """Count statements from now on; False where the server does not have what counts them."""
        try:
            self._connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
            self._connection.execute("SELECT pg_stat_statements_reset()")
        except psycopg.Error:
            return False
        return True

    def statements(self) -> list[Statement]:
        """What was executed since, the dearest first. What functions and triggers run inside is theirs."""
        return [Statement(**row) for row in self._connection.execute(STATEMENTS).fetchall()]

    def table_sizes(self) -> dict[str, int]:
        """Bytes of each table with its indexes and long values, after a VACUUM."""
        self._connection.execute("VACUUM")
        rows = self._connection.execute(TABLES).fetchall()
        return {row["name"]: row["size"] for row in rows}

    def _number(self, query: LiteralString) -> int:
        row = self._connection.execute(query).fetchone()
        return int(next(iter(row.values()))) if row else 0


@contextlib.contextmanager
def counters(place: Place) -> Generator[Counters]:
    """Counters of a contender's database and of the servers."""
    connect = psycopg.Connection[dict[str, Any]].connect
    with (
        connect(place.database_url, autocommit=True, row_factory=dict_row) as connection,
        redis_client(place.redis_url) as client,
    ):
        yield Counters(connection, client)


def track_statements(place: Place) -> None:
    """Have new sessions of this database counted, where the server can."""
    with (
        contextlib.suppress(psycopg.Error),
        psycopg.connect(place.database_url, autocommit=True) as connection,
    ):
        connection.execute(
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET pg_stat_statements.track = ''top''', "
            "current_database()); END $$"
        )
