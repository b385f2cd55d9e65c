"""Real worker processes to run turns on, and to kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

QUEUES = "turns,control,maintenance"
_START_SECONDS = 30.0
_STOP_SECONDS = 20.0


@dataclass(slots=True)
class Worker:
    """One `celery worker`, with its children, in a session of its own."""

    name: str
    environ: Mapping[str, str]
    log: Path
    pool: str = "prefork"
    concurrency: int = 2
    app: str = "turnchain.workers.app"
    arguments: tuple[str, ...] = ()
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def start(self) -> None:
        """Start it; `wait_until_ready` waits."""
        command = [
            sys.executable,
            "-m",
            "celery",
            "-A",
            self.app,
            "worker",
            "-Q",
            QUEUES,
            "-P",
            self.pool,
        ]
        command += [
            "-c",
            str(self.concurrency),
            "-n",
            f"{self.name}@%h",
            "--without-mingle",
            "--without-gossip",
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, *self.arguments],
                env=self.environ,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def wait_until_ready(self) -> None:
        """Wait for Celery's own word.

        Raises:
            RuntimeError: it ended, or said nothing in time; with its last words.
        """
        deadline = monotonic() + _START_SECONDS
        while f"{self.name}@" not in self._since_start() or " ready." not in self._since_start():
            if self.running.poll() is not None or monotonic() > deadline:
                raise RuntimeError(
                    f"worker {self.name} did not start: {self.log.read_text()[-2000:]}"
                )
            threading.Event().wait(0.05)

    @property
    def running(self) -> subprocess.Popen[bytes]:
        """The process.

        Raises:
            RuntimeError: it was not started.
        """
        if self.process is None:
            raise RuntimeError(f"worker {self.name} was not started")
        return self.process

    def children(self) -> list[int]:
        """Process ids of the pool's children."""
        path = Path(f"/proc/{self.running.pid}/task/{self.running.pid}/children")
        return [int(pid) for pid in path.read_text().split()] if path.exists() else []

    def kill(self) -> None:
        """SIGKILL the parent; its children die with it."""
        self.running.kill()
        self.running.wait()

    def terminate(self) -> int:
        """SIGTERM, and its exit code; SIGKILL if it does not end in time."""
        if self.running.poll() is None:
            self.running.send_signal(signal.SIGTERM)
        try:
            return self.running.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self.running.pid, signal.SIGKILL)
            return self.running.wait()

    def _since_start(self) -> str:
        return self.log.read_text(errors="replace")
