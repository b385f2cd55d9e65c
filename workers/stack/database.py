"""The stack's database, which a run may want for itself."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlsplit, urlunsplit

from turnchain.stores.postgres import connect

_CREATE: Final = Path(__file__).with_name("create_database.sql")


def with_database(server_url: str, name: str) -> str:
    """The URL of a database on that server, which is made where it is missing.

    Raises:
        StoreUnavailableError: the server does not answer.
    """
    with (
        closing(connect(server_url, max_size=1)) as stores,
        stores.connections.alone() as connection,
    ):
        missing = connection.execute(_CREATE.read_bytes(), {"name": name}).fetchone()
        if missing:
            connection.execute(missing["statement"].encode())
    return urlunsplit(urlsplit(server_url)._replace(path=f"/{quote(name)}"))
