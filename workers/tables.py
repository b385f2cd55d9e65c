"""Making the tables, where somebody asks for just that: `python -m turnchain.workers.tables`.

For the embedded stack and the compose file. Everybody else applies `turnchain schema` with a tool of their own.
"""

from __future__ import annotations

import os
import sys
from contextlib import closing

from turnchain.orchestrator_core.errors import TurnchainError
from turnchain.stores.postgres import connect, schema
from turnchain.workers.settings import Settings


def make_tables(postgres_url: str) -> None:
    """Make those that are missing. Running it twice is safe.

    Raises:
        SettingsError: the URL cannot be read.
        StoreUnavailableError: the database does not answer.
    """
    with (
        closing(connect(postgres_url, max_size=1)) as stores,
        stores.connections.alone() as connection,
    ):
        connection.execute(schema().encode())


def main() -> int:
    """In the database of the settings. 2 says that it could not be done."""
    try:
        make_tables(Settings.from_env(os.environ).postgres_url)
    except TurnchainError as error:
        sys.stderr.write(f"turnchain: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
