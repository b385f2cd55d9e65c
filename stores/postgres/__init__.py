"""The Postgres driver: the system of record.

    stores = connect("postgresql://…", max_size=8)
    stores.ledger.accept(request, request_hash="…")

Nothing is opened before the first verb, and nothing is ever migrated: apply `schema()` yourself.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from turnchain.orchestrator_core.contracts import TurnId
from turnchain.orchestrator_core.errors import SchemaMissingError
from turnchain.stores.postgres.checkpoints import PostgresCheckpoints
from turnchain.stores.postgres.connection import Connections
from turnchain.stores.postgres.inspecting import PostgresInspection
from turnchain.stores.postgres.ledger import PostgresLedger
from turnchain.stores.postgres.snapshots import PostgresSnapshots
from turnchain.stores.postgres.statements import functions, schema
from turnchain.stores.postgres.unit import PostgresUnit

__all__ = [
    "PostgresCheckpoints",
    "PostgresInspection",
    "PostgresLedger",
    "PostgresSnapshots",
    "PostgresStores",
    "PostgresUnit",
    "connect",
    "schema",
]


@dataclass(frozen=True, slots=True)
class PostgresStores:
    """The three stores over one database."""

    ledger: PostgresLedger
    checkpoints: PostgresCheckpoints
    snapshots: PostgresSnapshots
    connections: Connections

    @property
    def inspection(self) -> PostgresInspection:
        """The operator's read side of it."""
        return PostgresInspection(self.connections)

    def check_schema(self) -> None:
        """See that the database has what this release calls: a claim alone works without.

        Raises:
            StoreUnavailableError: it does not answer.
            SchemaMissingError: it lacks a table, or a function.
        """
        self.ledger.get(TurnId(str(UUID(int=0))))
        lacking = self.connections.run_safely("lacking", {"names": functions()})
        if lacking:
            names = ", ".join(row["name"] for row in lacking)
            raise SchemaMissingError(
                f"{self.connections.where} lacks functions of this release ({names}): apply them with "
                "`turnchain schema | psql …`",
                {"server": self.connections.where},
            )

    def close(self) -> None:
        """Close this process's connections."""
        self.connections.close()


def connect(
    url: str,
    *,
    max_size: int = 4,
    lock_timeout: timedelta = timedelta(seconds=5),
    read_only: bool = False,
) -> PostgresStores:
    """The stores of a database, given as URL or connection string.

    `max_size` is how many connections each of the two pools may hold in one process: as many as
    there are threads that use the stores. `lock_timeout` is how long a statement waits for somebody
    else's transaction. `read_only` has the server refuse every write: for those who only look.

    Raises:
        SettingsError: the URL cannot be read. Whether the server answers shows at the first verb.
    """
    connections = Connections(
        url, max_size=max_size, lock_timeout=lock_timeout, read_only=read_only
    )
    return PostgresStores(
        ledger=PostgresLedger(connections),
        checkpoints=PostgresCheckpoints(connections),
        snapshots=PostgresSnapshots(connections),
        connections=connections,
    )
