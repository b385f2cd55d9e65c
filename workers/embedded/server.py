"""A server process: started, watched until it answers, stopped."""

from __future__ import annotations

import contextlib
import itertools
import os
import pwd
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Final

from turnchain.orchestrator_core.errors import SettingsError, StoreUnavailableError
from turnchain.workers.embedded.ports import free_port

Port = int | Iterable[int] | None
"""One, or the first that is free of several, or any free one."""

LAUNCH = Path(__file__).parents[1] / "launch.py"
_START_LIMIT = timedelta(seconds=30)
_STOP_LIMIT = timedelta(seconds=10)
# How long one look at a starting server waits for its exit before the next look.
_LOOK_SECONDS = 0.01
# Somebody may take the port between our look and the server's bind.
_PORT_ATTEMPTS = 5
PORT_TAKEN: Final = "Address already in use"
_DISK_FULL = "No space left on device"


@dataclass(frozen=True, slots=True)
class Server:
    """A running server and how to reach and end it."""

    name: str
    url: str
    port: int
    process: subprocess.Popen[bytes]
    directory: Path
    stop_signals: Sequence[signal.Signals]
    """What asks it to end, gentlest first."""

    @property
    def log(self) -> Path:
        """What the server printed since it was started."""
        return log_of(self.directory)

    @property
    def ending(self) -> str:
        """How it ended, in one sentence, with its own last words where it had any."""
        status = self.process.poll() or 0
        words = f": {last_words(self.directory)}" if status > 0 else ""
        return f"{self.name} {ending_of(status)}{words}"

    def stop(self) -> None:
        """End the server, asking first and killing last. Calling it twice is safe."""
        end(self.process, self.stop_signals)


def start(
    name: str,
    launch: Callable[[int], Server],
    is_ready: Callable[[Server], bool],
    port: Port,
) -> Server:
    """Launch on this port, or the first of these that nobody has, and wait until it answers.

    Raises:
        SettingsError: this is not the main thread.
        StoreUnavailableError: it did not start; the message ends with its own last words.
    """
    if threading.current_thread() is not threading.main_thread():
        raise SettingsError(f"{name} dies with the thread that starts it: use the main thread")
    candidates = [port] if isinstance(port, int) else port or iter(free_port, 0)
    failed = None
    for each in itertools.islice(candidates, _PORT_ATTEMPTS):
        server = launch(each)
        if _becomes_ready(server, is_ready):
            return server
        failed = StoreUnavailableError(
            f"{name} did not start in {str(server.directory)!r}: {last_words(server.directory)}"
        )
        if PORT_TAKEN not in server.log.read_text(errors="replace"):
            break
    raise failed or StoreUnavailableError(f"{name} did not start: no port of 127.0.0.1 is free")


def launched(
    command: Sequence[str],
    directory: Path,
    account: pwd.struct_passwd | None,
    *,
    dies_by: signal.Signals,
    lock: int,
    standard_input: bytes = b"",
) -> subprocess.Popen[bytes]:
    """A process that holds the directory's lock, and gets this signal when our thread ends."""
    user, group = (account.pw_uid, account.pw_gid) if account else (-1, -1)
    numbers = [str(number) for number in (os.getpid(), int(dies_by), user, group)]
    with log_of(directory).open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(LAUNCH), *numbers, *command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=directory,
            # Nothing of ours: PG* would change what Postgres does, the rest is not its business.
            env={"LC_ALL": "C", "PATH": os.defpath},
            pass_fds=(lock,),
            # Ctrl-C in a terminal ends us, and we end the servers, in this order.
            start_new_session=True,
        )
    if process.stdin:
        with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(standard_input)
    return process


def end(process: subprocess.Popen[bytes], signals: Sequence[signal.Signals]) -> None:
    """Send one after the other until the process ends, then SIGKILL."""
    for signum in (*signals, signal.SIGKILL):
        process.send_signal(signum)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_LIMIT.total_seconds())
            return


def ending_of(status: int) -> str:
    """An exit status as `subprocess` has it, in words."""
    return (
        f"was ended by {signal.Signals(-status).name}"
        if status < 0
        else f"ended with status {status}"
    )


def log_of(directory: Path) -> Path:
    """Where a server's output goes."""
    return directory / "log"


def last_words(directory: Path) -> str:
    """Why a server ended, from its log, as one line."""
    text = log_of(directory).read_text(errors="replace")[-4000:]
    lines = [_STAMP.sub("", line).strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if _TELLING.search(line)] or lines[-2:]
    words = "; ".join(dict.fromkeys(telling[-5:])) or "it said nothing"
    return f"the disk is full ({words})" if _DISK_FULL in text else words


# How Postgres and Valkey begin a line: an instant and a process.
_STAMP = re.compile(r"^.*?(\d{4}-\S+ \S+ \S+ \[\d+\] |\d+:\w \d+ \w+ \d{4} \S+ [.\-*#] )")
_TELLING = re.compile(r"FATAL|PANIC|DETAIL|[Ee]rror|[Cc]ould not|[Ff]ailed|[Dd]enied|Can't")


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
