"""Servers, databases and key prefixes for every test that wants one."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator

import psycopg
import pytest

from tests.servers import (
    POSTGRES_VARIABLE,
    REDIS_VARIABLE,
    Servers,
    database,
    name_of_database,
    prefix,
    servers,
)
from turnchain.orchestrator_core.errors import SettingsError

_session = contextlib.ExitStack()


def pytest_configure(config: pytest.Config) -> None:
    """Start the servers once for all processes of a parallel run, which find them as given ones."""
    is_controller = not hasattr(config, "workerinput")
    if is_controller and config.getoption("numprocesses", default=None):
        with contextlib.suppress(SettingsError):  # the fixture says it, where a test needs it
            found = _session.enter_context(servers())
            patch = _session.enter_context(pytest.MonkeyPatch.context())
            patch.setenv(POSTGRES_VARIABLE, found.postgres_url)
            patch.setenv(REDIS_VARIABLE, found.redis_url)


def pytest_unconfigure() -> None:
    """Stop what was started."""
    _session.close()


@pytest.fixture(scope="session")
def _servers() -> Generator[Servers]:
    with contextlib.ExitStack() as stack:
        try:
            found = stack.enter_context(servers())
        except SettingsError as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(str(error))
        yield found


@pytest.fixture(scope="session")
def postgres_url(_servers: Servers) -> str:
    """The Postgres server; its database is not ours to write to: see `database_url`."""
    return _servers.postgres_url


@pytest.fixture(scope="session")
def redis_url(_servers: Servers) -> str:
    """The Redis server; only keys under `key_prefix` are ours."""
    return _servers.redis_url


@pytest.fixture(scope="session")
def _template(postgres_url: str) -> Generator[str]:
    """The name of a database with the schema and no rows."""
    from turnchain.stores.postgres import schema

    with database(postgres_url) as url:
        with psycopg.connect(url) as connection:
            connection.execute(schema().encode())
        yield name_of_database(url)


@pytest.fixture
def database_url(postgres_url: str, _template: str) -> Generator[str]:
    """A database of this test's own, with the schema and no rows."""
    with database(postgres_url, template=_template) as url:
        yield url


@pytest.fixture
def empty_database_url(postgres_url: str) -> Generator[str]:
    """A database of this test's own without the schema."""
    with database(postgres_url) as url:
        yield url


@pytest.fixture
def key_prefix(redis_url: str) -> Generator[str]:
    """What every Redis key and queue of this test begins with."""
    with prefix(redis_url) as own:
        yield own
