"""What all contenders share: the servers, and for each of them a database and a key prefix of its own.

The servers are those that TURNCHAIN_POSTGRES_URL and TURNCHAIN_BROKER_URL name, else new ones from
wheels, with fsync on. On given servers only what was made here is dropped.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

import psycopg
import redis
from psycopg import sql

from benchmarks.machine import pid_if_called
from turnchain.workers.embedded import start_postgres, start_valkey, temporary_directory

POSTGRES_VARIABLE = "TURNCHAIN_POSTGRES_URL"
BROKER_VARIABLE = "TURNCHAIN_BROKER_URL"

_SETTINGS = {
    # Loaded and idle; the counting pass turns it on for its own databases.
    "shared_preload_libraries": "pg_stat_statements",
    "pg_stat_statements.track": "none",
}


@dataclass(frozen=True, slots=True)
class Place:
    """Where one contender works."""

    database_url: str
    redis_url: str
    key_prefix: str
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    """What its workers find in their environment beside where they work."""


@contextlib.contextmanager
def redis_client(url: str) -> Generator[Any]:
    """A client, closed at the end. Its own types are half unknown.

    It waits for a blocking command as long as that says, not the driver's own 5 s.
    """
    with contextlib.closing(cast("Any", redis.Redis).from_url(url, socket_timeout=None)) as client:
        yield client


@dataclass(slots=True)
class Stand:
    """The servers of one run, its directory for logs, and how workers are started."""

    postgres_url: str
    redis_url: str
    directory: Path
    pool: str
    concurrency: int
    profiles: Path | None = None
    """Where workers leave their profiles; None runs them without a profiler."""
    events: bool = False
    """Whether all workers send Celery's task events; Turnchain's always do."""
    name: str = field(default_factory=lambda: f"turnchain_bench_{secrets.token_hex(3)}")
    key_prefix: str = ""
    """Before the name, in every key."""
    postgres_pid: int | None = field(init=False)
    """None where the server is not on this machine: its CPU time is then in nobody's sum."""
    redis_pid: int | None = field(init=False)

    def __post_init__(self) -> None:
        with psycopg.connect(self.postgres_url, autocommit=True) as connection:
            self.postgres_pid = pid_if_called("postgres", connection.info.backend_pid, parent=True)
        with redis_client(self.redis_url) as client:
            told = client.info("server")["process_id"]
            self.redis_pid = pid_if_called("redis", told) or pid_if_called("valkey", told)

    @contextlib.contextmanager
    def place(self, contender: str) -> Generator[Place]:
        """A new database and prefix, dropped at the end."""
        unique = f"{self.name}_{contender}_{secrets.token_hex(2)}"
        with self._database(unique) as database_url:
            prefix = f"{self.key_prefix}{unique}:"
            try:
                yield Place(database_url, self.redis_url, prefix)
            finally:
                self.delete_keys(prefix)

    def keys(self, prefix: str) -> list[str]:
        """The Redis keys under a prefix."""
        with redis_client(self.redis_url) as client:
            return sorted(key.decode() for key in client.scan_iter(match=f"{prefix}*", count=1000))

    def delete_keys(self, prefix: str) -> None:
        """Delete them."""
        keys = self.keys(prefix)
        with redis_client(self.redis_url) as client:
            if keys:
                client.delete(*keys)

    @contextlib.contextmanager
    def _database(self, name: str) -> Generator[str]:
        self._execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        try:
            yield urlunsplit(urlsplit(self.postgres_url)._replace(path=f"/{name}"))
        finally:
            self._execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.postgres_url, autocommit=True) as connection:
            connection.execute(statement)


@contextlib.contextmanager
def stand(
    pool: str, concurrency: int, profiles: Path | None = None, *, events: bool = False
) -> Generator[Stand]:
    """The given servers, or new ones for the length of the block.

    Raises:
        SettingsError, StoreUnavailableError: servers were not given and cannot be started.
    """
    postgres_url, redis_url = os.environ.get(POSTGRES_VARIABLE), os.environ.get(BROKER_VARIABLE)
    with contextlib.ExitStack() as stack:
        home = stack.enter_context(temporary_directory())
        if not postgres_url:
            postgres = start_postgres(home / "postgres", settings=_SETTINGS)
            stack.callback(postgres.stop)
            postgres_url = postgres.url
        if not redis_url:
            valkey = start_valkey(home / "valkey")
            stack.callback(valkey.stop)
            redis_url = valkey.url
        yield Stand(postgres_url, redis_url, home, pool, concurrency, profiles, events)
