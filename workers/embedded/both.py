"""Both servers for the length of a `with` block."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from turnchain.workers.embedded.places import prepared, temporary_directory
from turnchain.workers.embedded.postgres import start_postgres
from turnchain.workers.embedded.server import Server
from turnchain.workers.embedded.valkey import start_valkey


@dataclass(frozen=True, slots=True)
class EmbeddedServers:
    """Both servers."""

    postgres: Server
    valkey: Server


@contextlib.contextmanager
def embedded_servers(
    directory: Path | None = None, *, durable: bool = True
) -> Generator[EmbeddedServers]:
    """Run both servers for the length of a `with` block.

    Without a directory they get a temporary one, removed at the end; with one, the next run finds
    its data there.

    Raises:
        SettingsError: a wheel is missing, the directory is unfit, or this is not the main thread.
        StoreUnavailableError: a server did not start; the message ends with its own last words.
    """
    with contextlib.ExitStack() as stack:
        home = prepared(directory or stack.enter_context(temporary_directory()))
        postgres = start_postgres(home / "postgres", durable=durable)
        stack.callback(postgres.stop)
        valkey = start_valkey(home / "valkey", durable=durable)
        stack.callback(valkey.stop)
        yield EmbeddedServers(postgres, valkey)
