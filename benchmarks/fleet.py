"""Worker processes of the contenders, all started in the same way."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TypeVar

from benchmarks import profiled
from benchmarks.profiled import APP_VARIABLE, DIRECTORY_VARIABLE
from benchmarks.stand import Stand
from turnchain.workers import launch

ROOT = Path(__file__).parents[1]
_START_SECONDS = 30.0
_STOP_SECONDS = 10.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Worker:
    """One `celery worker` with its children, in a process group of its own."""

    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        """The parent's process id."""
        return self.process.pid

    def kill(self) -> None:
        """SIGKILL all of it at once, as when its host goes."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """SIGTERM, and SIGKILL for what does not end in time."""
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_STOP_SECONDS)
        self.kill()


@contextlib.contextmanager
def worker(
    stand: Stand, app: str, *, queues: str, environ: Mapping[str, str], name: str
) -> Generator[Worker]:
    """A worker that is ready, for the length of the block; it dies with this process.

    Raises:
        RuntimeError: it ended or was not ready in time; with its last words.
    """
    if stand.profiles:
        environ = {**environ, APP_VARIABLE: app, DIRECTORY_VARIABLE: str(stand.profiles)}
        app = profiled.__name__
    # So that a benchmark that is killed leaves no worker behind.
    tie = [sys.executable, "-I", "-S", launch.__file__, str(os.getpid()), str(int(signal.SIGKILL))]
    command = [sys.executable, "-m", "celery", "-A", app, "worker", "-Q", queues, "-P", stand.pool]
    # The log level that teams run with, and that Turnchain's settings have.
    command += ["-c", str(stand.concurrency), "-l", "INFO", "-n", f"{name}@%h"]
    command += ["-E"] if stand.events else []
    log = stand.directory / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*tie, "-1", "-1", *command, "--without-mingle", "--without-gossip"],
            env={**_neutral(os.environ), **environ},
            cwd=ROOT,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    started = Worker(process, log)
    try:
        wait_for(lambda: _is_ready(started), _START_SECONDS, f"worker {name}")
        yield started
    finally:
        started.stop()


def wait_for(look: Callable[[], T | None], within: float, what: str) -> T:
    """What `look` returns, once that is true.

    Raises:
        RuntimeError: it was not within so many seconds.
    """
    deadline = monotonic() + within
    while True:
        found = look()
        if found:
            return found
        if monotonic() > deadline:
            raise RuntimeError(f"{what}: not within {within} s")
        threading.Event().wait(0.02)


def _neutral(environ: Mapping[str, str]) -> dict[str, str]:
    """Without settings that somebody has made for other workers: these run as shipped."""
    return {name: value for name, value in environ.items() if not name.startswith("TURNCHAIN_")}


def _is_ready(started: Worker) -> bool:
    said = started.log.read_text(errors="replace")
    if started.process.poll() is not None:
        raise RuntimeError(f"worker {started.log.stem} did not start: {said[-2000:]}")
    return " ready." in said
