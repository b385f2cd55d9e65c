"""The driver over a database of the test's own, and a second connection that looks under it."""

from __future__ import annotations

from collections.abc import Generator

import psycopg
import pytest

from turnchain.stores.conformance.exam import Given
from turnchain.stores.postgres import PostgresStores, connect


@pytest.fixture
def stores(database_url: str) -> Generator[PostgresStores]:
    stores = connect(database_url, max_size=8)
    yield stores
    stores.close()


@pytest.fixture
def given(stores: PostgresStores) -> Given:
    return Given(stores)


@pytest.fixture
def direct(database_url: str) -> Generator[psycopg.Connection]:
    """A connection of somebody else, autocommit."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection
