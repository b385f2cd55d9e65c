"""Hearing of settled turns by LISTEN."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta

import psycopg
from psycopg.rows import DictRow

from turnchain.orchestrator_core.contracts import TurnId
from turnchain.stores.postgres.connection import Connections
from turnchain.stores.postgres.errors import translating
from turnchain.stores.postgres.statements import STATEMENTS


class PostgresListener:
    """`Listener` on one connection that does nothing else."""

    def __init__(self, connection: psycopg.Connection[DictRow], where: str) -> None:
        self._connection = connection
        self._where = where

    def wait(self, timeout: timedelta) -> frozenset[TurnId]:
        """As `Listener.wait`.

        Raises:
            StoreUnavailableError: the connection broke; open a new one by `listen`.
        """
        with translating(psycopg.Error, self._where):
            # Returns with all that came along with the first.
            notices = self._connection.notifies(timeout=timeout.total_seconds(), stop_after=1)
            return frozenset(TurnId(notice.payload) for notice in notices)


@contextmanager
def listening(connections: Connections) -> Generator[PostgresListener]:
    """A listener while the block is open."""
    with connections.alone() as connection:
        with translating(psycopg.Error, connections.where):
            connection.execute(STATEMENTS["listen"])
        yield PostgresListener(connection, connections.where)
