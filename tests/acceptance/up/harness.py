"""`turnchain up` as a stranger types it, and what is left of it afterwards."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import IO, TypeVar

import psutil

T = TypeVar("T")
ROOT = Path(__file__).parents[3]
PATIENCE_SECONDS = 60.0
MARK = "STACK_UNDER_TEST"
ECHO = """
from turnchain import Orchestrator

def answer(ctx):
    return {"reply": ctx.input.upper()}

echo = Orchestrator(name="echo", intents={"answer": answer}, route=lambda ctx: "answer")
"""


@dataclass
class Up:
    """One `turnchain up` in a project of its own, which serves an orchestrator called echo."""

    project: Path
    arguments: tuple[str, ...] = ()
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    mark: str = field(default_factory=lambda: secrets.token_hex(8))

    def __post_init__(self) -> None:
        (self.project / "bots.py").write_text(ECHO)
        self.directory = self.project / "data"
        self.out = self.project / "out"
        self.err = self.project / "err"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, out: IO[bytes] | None = None, ignoring: signal.Signals | None = None) -> Up:
        """Start it; `wait_until_up` waits. It may print to `out`, and begins with this signal ignored."""
        clean = {
            name: value for name, value in os.environ.items() if not name.startswith("TURNCHAIN_")
        }
        command = [sys.executable, "-m", "turnchain.workers", "up", "--directory", "data"]
        with self.out.open("wb") as file, self.err.open("wb") as err, _handling(ignoring):
            self.process = subprocess.Popen(
                [*command, *self.arguments],
                cwd=self.project,
                env={
                    **clean,
                    "TURNCHAIN_ORCHESTRATORS": "bots:echo",
                    MARK: self.mark,
                    **self.environ,
                },
                stdin=subprocess.DEVNULL,
                stdout=out or file,
                stderr=err,
            )
        return self

    @property
    def running(self) -> subprocess.Popen[bytes]:
        assert self.process, "it was not started"
        return self.process

    def wait_until_up(self) -> Up:
        """Until it says so."""
        self.wait_until(
            lambda: "Everything runs" in self.said and "export TURNCHAIN_BROKER_URL" in self.said
        )
        return self

    def wait_until(self, fact: Callable[[], T]) -> T:
        """What it is, once it is."""
        deadline = monotonic() + PATIENCE_SECONDS
        while not (found := fact()):
            assert self.running.poll() is None, f"it ended: {self.said}{self.err.read_text()}"
            assert monotonic() < deadline, f"it never came to that: {self.said}"
            threading.Event().wait(0.05)
        return found

    @property
    def said(self) -> str:
        return self.out.read_text()

    @property
    def complaint(self) -> str:
        return self.err.read_text()

    def url(self, kind: str) -> str:
        """Postgres, Redis or Flower, as it was printed."""
        (found,) = re.findall(rf"^  {kind} +(\S+)$", self.said, re.MULTILINE)
        return found

    def end(self, signum: signal.Signals = signal.SIGINT) -> int:
        """Send a signal, and return the exit status."""
        self.running.send_signal(signum)
        return self.running.wait(PATIENCE_SECONDS)

    def processes(self, word: str = "") -> list[psutil.Process]:
        """All that belong to it, wherever they stand in the tree, with this word in their command."""
        return [each for each in psutil.process_iter() if self._is_ours(each, word)]

    def wait_until_none_is_left(self) -> None:
        deadline = monotonic() + PATIENCE_SECONDS
        while left := self.processes():
            assert monotonic() < deadline, [_told(each) for each in left]
            threading.Event().wait(0.02)

    def close(self) -> None:
        """Kill whatever is left."""
        for each in self.processes():
            each.kill()
        if self.process:
            self.process.wait()

    def _is_ours(self, process: psutil.Process, word: str) -> bool:
        try:
            command = " ".join(process.cmdline())
            is_ours = (
                str(self.directory.resolve()) in command
                or process.cwd().startswith(str(self.directory.resolve()))
                or process.environ().get(MARK) == self.mark
            )
            return is_ours and word in command and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False


@contextmanager
def _handling(ignored: signal.Signals | None) -> Generator[None]:
    """As in a terminal: a run in the background has SIGINT ignored, and its children would ignore it, too."""
    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: signal.SIG_DFL}
    before = {
        signum: signal.signal(signum, signal.SIG_IGN if signum is ignored else handler)
        for signum, handler in handlers.items()
    }
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def _told(process: psutil.Process) -> str:
    try:
        return f"{process.pid} {' '.join(process.cmdline())}"
    except psutil.Error:
        return f"{process.pid} has just ended"


_CLIENT = """
import os, sys, turnchain
client = turnchain.connect(os.environ["TURNCHAIN_POSTGRES_URL"], broker=os.environ["TURNCHAIN_BROKER_URL"])
turn = client.enqueue(sys.argv[1], "hello", session_id="s", history=[])
if sys.argv[1] == "echo":
    print(turn.result(timeout=30).data["reply"])
"""


def ask(up: Up, orchestrator: str = "echo") -> str:
    """What a client hears in a shell where the printed lines were entered, and nothing else."""
    exports = [line for line in up.said.splitlines() if line.startswith("  export ")]
    command = shlex.join([sys.executable, "-c", _CLIENT, orchestrator])
    done = subprocess.run(
        ["sh", "-euc", "\n".join([*exports, command])],
        env={"PATH": os.environ["PATH"]},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
