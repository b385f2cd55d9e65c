"""`turnchain demo` as a stranger runs it: to its end, interrupted, and with something going wrong. [issue 3.2]"""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import psutil
import psycopg
import pytest

from tests.acceptance.database import wait_for
from turnchain.workers.embedded import temporary_directory

ROOT = Path(__file__).parents[2]
QUICK = {
    "TURNCHAIN_LEASE": "3",
    "TURNCHAIN_HOUSEKEEPING": "1",
    "TURNCHAIN_SWEEP_INTERVAL": "1",
    "TURNCHAIN_REWAKE": "1",
}
PATIENCE = 90.0

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(150)]


@dataclass(slots=True)
class Run:
    """A running demo, and what it has said so far."""

    process: subprocess.Popen[bytes]
    out: IO[bytes]
    said: str = ""
    family: set[psutil.Process] = field(default_factory=set[psutil.Process])

    def until(self, word: str) -> str:
        """Read until a line has this word, and remember everybody who runs by then."""
        while word not in self.said:
            line = self._line()
            assert line, f"{word!r} was not said: {self.said}"
        own = psutil.Process(self.process.pid)
        self.family |= set(own.children(recursive=True))
        return self.said

    def end(self) -> int:
        while self._line():
            pass
        return self.process.wait(PATIENCE)

    def _line(self) -> str:
        with suppress(OSError):  # a pty whose other side is closed
            line = self.out.readline().decode()
            self.said += line
            return line
        return ""

    def row(self, name: str) -> str:
        (value,) = re.findall(rf"^  {re.escape(name)}  +(\S.*?)\r?$", self.said, re.MULTILINE)
        return value

    def url(self) -> str:
        return re.findall(r"POSTGRES_URL=(postgresql://\S+)", self.said)[-1]


@pytest.fixture
def scratch() -> Generator[Path]:
    """Where the demos make their temporary directories."""
    with temporary_directory() as directory:
        yield directory


@pytest.fixture
def start(scratch: Path) -> Generator[Callable[..., Run]]:
    """Starts demos; none outlives the test."""
    runs: list[Run] = []

    def begin(*options: str, script: str = "", terminal: bool = False) -> Run:
        command = ["-c", script] if script else ["-m", "turnchain.workers"]
        with _output(terminal) as (ours, theirs):
            process = subprocess.Popen(
                [sys.executable, *command, "demo", "--seconds", "3", *options],
                cwd=ROOT,
                env={**_without_ours(os.environ), **QUICK, "TMPDIR": str(scratch)},
                stdin=subprocess.DEVNULL,
                stdout=theirs,
                stderr=theirs,
            )
        run = Run(process, os.fdopen(ours, "rb", buffering=0 if terminal else -1))
        runs.append(run)
        return run

    yield begin
    for run in runs:
        run.process.kill()
        run.process.wait()
        run.out.close()
        for each in run.family:
            with suppress(psutil.NoSuchProcess):
                each.kill()


@contextmanager
def _output(terminal: bool) -> Generator[tuple[int, int]]:
    ours, theirs = pty.openpty() if terminal else os.pipe()
    try:
        yield ours, theirs
    finally:
        os.close(theirs)


def _without_ours(environ: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in environ.items() if not name.startswith("TURNCHAIN_")}
    return {**kept, "TERM": "xterm", "COLUMNS": "200"}


def nothing_is_left(run: Run, scratch: Path) -> None:
    wait_for(lambda: not any(map(_is_alive, run.family)), 5, "everybody has ended")
    assert list(scratch.iterdir()) == []


def _is_alive(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def everything_held(run: Run) -> None:
    assert run.process.returncode == 0, run.said
    for name in ("lost", "doubled", "wrong"):
        assert run.row(name) == "0"
    assert "Everything held" in run.said


def test_a_worker_is_killed_inside_a_turn_and_everything_holds(
    start: Callable[..., Run], scratch: Path
) -> None:
    run = start()
    run.until("SIGKILL to worker")
    run.end()

    everything_held(run)
    assert re.search(r"took over [0-9a-f-]{36}\n +from worker\d \(pid \d+\) \d+\.\d s", run.said)
    assert int(run.row("takeovers")) >= 1
    assert int(run.row("iterations run again")) >= 1
    assert int(run.row("turns")) >= 18  # the sample, once
    assert "\x1b" not in run.said
    nothing_is_left(run, scratch)


def test_what_is_kept_can_be_looked_at_until_ctrl_c(
    start: Callable[..., Run], scratch: Path
) -> None:
    run = start("--no-kill", "--keep", "--workers", "1", terminal=True)
    said = run.until("Ctrl-C ends it")
    run.until("turns\r\n")
    flower = re.findall(r"http://\S+", said)[0]
    with urllib.request.urlopen(flower, timeout=10) as page:
        status = page.status
    with psycopg.connect(run.url()) as connection:
        turns = connection.execute("SELECT count(*) FROM turnchain_turns").fetchone()
    run.process.send_signal(signal.SIGINT)
    run.end()

    everything_held(run)
    assert status == 200
    assert turns == (int(run.row("turns")),)
    assert run.row("takeovers") == "0"
    assert "playing" in said  # the bar, on a terminal
    assert "\x1b[" in said
    nothing_is_left(run, scratch)


@pytest.mark.parametrize(
    ("word", "signum"),
    [
        ("Starting", signal.SIGINT),
        ("turns, in Postgres", signal.SIGINT),
        ("SIGKILL to worker", signal.SIGTERM),
    ],
)
def test_an_interrupted_demo_leaves_nothing_behind(
    start: Callable[..., Run], scratch: Path, word: str, signum: signal.Signals
) -> None:
    run = start()
    run.until(word)
    run.process.send_signal(signum)
    code = run.end()

    assert code == 130, run.said
    assert run.said.rstrip().endswith("everything is stopped.")
    assert "Traceback" not in run.said
    nothing_is_left(run, scratch)


WRONG = """
import sys
from turnchain.examples.booking import verdict
from turnchain.workers.cli import main
verdict.WRONG = "SELECT 7"
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.long  # two whole demos
def test_a_directory_can_be_used_again_and_a_wrong_state_is_exit_code_1(
    start: Callable[..., Run], scratch: Path
) -> None:
    directory = scratch / "mine"
    first = start("--no-kill", "--seconds", "1", "--directory", str(directory))
    first.end()
    second = start("--no-kill", "--seconds", "1", "--directory", str(directory), script=WRONG)

    code = second.end()

    everything_held(first)
    assert code == 1, second.said
    assert second.row("wrong") == "7"
    assert second.row("lost") == "0"
    assert second.row("sessions") == first.row("sessions")  # of one run, not of both
    assert "NOT everything held" in second.said
    assert f"is in {directory}/logs" in second.said
    assert " ready." in (directory / "logs" / "worker1.log").read_text()
    assert list(scratch.iterdir()) == [directory]


def test_a_server_that_dies_ends_the_demo_with_one_sentence(start: Callable[..., Run]) -> None:
    run = start("--no-kill")
    run.until("turns, in Postgres")
    (valkey,) = [each for each in run.family if "valkey" in each.name()]
    valkey.kill()

    code = run.end()

    assert code == 2, run.said
    assert "Traceback" not in run.said
    assert run.said.splitlines()[-1].startswith("turnchain demo: ")
    (logs,) = re.findall(r"is in (\S+)", run.said)
    assert " ready." in Path(logs, "worker1.log").read_text()
    assert not any(map(_is_alive, run.family))
