"""The servers that the tests talk to: given by URL, else throwaway ones started from wheels.

A given server is somebody's: nothing in it is flushed, and only what was made here is dropped.
Databases are called `turnchain_test_<random>...`, keys start with a prefix of their own. Where the
given Postgres URL names a database of such a name, ours begin with it, so that whoever made that
one can drop them all.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import redis
from psycopg import sql

from turnchain.workers.embedded import start_postgres, start_valkey, temporary_directory

POSTGRES_VARIABLE = "TURNCHAIN_TEST_POSTGRES_URL"
REDIS_VARIABLE = "TURNCHAIN_TEST_REDIS_URL"
PREFIX_VARIABLE = "TURNCHAIN_TEST_REDIS_PREFIX"
DATABASE_PREFIX = "turnchain_test_"
MEMORY = Path("/dev/shm")
MEMORY_NEEDED = 4 * 2**30


@dataclass(frozen=True, slots=True)
class Servers:
    """Where the tests' servers answer."""

    postgres_url: str
    redis_url: str


@contextlib.contextmanager
def servers() -> Generator[Servers]:
    """The given servers, or throwaway ones for the length of the block."""
    postgres_url = os.environ.get(POSTGRES_VARIABLE)
    redis_url = os.environ.get(REDIS_VARIABLE)
    with contextlib.ExitStack() as stack:
        if not (postgres_url and redis_url):
            home = stack.enter_context(temporary_directory(_memory()))
            if not postgres_url:
                postgres = start_postgres(home / "postgres", durable=False)
                stack.callback(postgres.stop)
                postgres_url = postgres.url
            if not redis_url:
                valkey = start_valkey(home / "valkey", durable=False)
                stack.callback(valkey.stop)
                redis_url = valkey.url
        yield Servers(postgres_url, redis_url)


def _memory() -> Path | None:
    """Where files cost nothing: each test's database is hundreds of them, and ext4 looks long for a free inode when as
    many were deleted a moment ago. The tests' servers do not outlive a crash of the machine anyway.
    """
    has_room = MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > MEMORY_NEEDED
    return MEMORY if has_room and os.access(MEMORY, os.W_OK) else None


def name_of_database(url: str) -> str:
    """The database that a URL names."""
    return urlsplit(url).path.removeprefix("/")


def with_database(url: str, database: str) -> str:
    """The same server and user, another database."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{database}"))


def new_database_name(server_url: str) -> str:
    """A name that nobody has."""
    given = name_of_database(server_url)
    prefix = f"{given}_" if given.startswith(DATABASE_PREFIX) else DATABASE_PREFIX
    return prefix + secrets.token_hex(4)


@contextlib.contextmanager
def database(server_url: str, *, template: str = "template1") -> Generator[str]:
    """The URL of a new database, dropped at the end with whoever is still connected."""
    name = new_database_name(server_url)
    _execute(
        server_url,
        sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
            sql.Identifier(name), sql.Identifier(template)
        ),
    )
    try:
        yield with_database(server_url, name)
    finally:
        _execute(
            server_url,
            sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)),
        )


@contextlib.contextmanager
def prefix(redis_url: str) -> Generator[str]:
    """A key prefix that nobody has; the keys under it are deleted at the end."""
    given = os.environ.get(PREFIX_VARIABLE, "turnchain-test:")
    own = f"{given}{secrets.token_hex(4)}:"
    try:
        yield own
    finally:
        with redis.Redis.from_url(redis_url) as client:
            for key in client.scan_iter(match=f"{own}*", count=1000):
                client.delete(key)


def _execute(url: str, statement: sql.Composed) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)
