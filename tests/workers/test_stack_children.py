from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from time import monotonic

import pytest

from turnchain.workers.stack import children
from turnchain.workers.stack.children import Child

PATIENCE_SECONDS = 8
LEAVES_A_CHILD = """
import os, threading
readable, writable = os.pipe()
if os.fork() == 0:
    print(os.getpid(), flush=True)
    os.write(writable, b".")
    threading.Event().wait()
os.read(readable, 1)
"""
STAYS = "import sys, threading; print('up', flush=True); threading.Event().wait()"


@dataclass
class Heard:
    """What a child's surroundings were told."""

    lines: list[tuple[str, str]] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    failed: threading.Event = field(default_factory=threading.Event)

    def write(self, name: str, line: str) -> None:
        self.lines.append((name, line))
        if line == "full":
            raise OSError(28, "No space left on device")


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def begin(heard: Heard, monkeypatch: pytest.MonkeyPatch) -> Generator[Callable[[str], Child]]:
    """Starts a child that runs a script; all of them are ended after the test."""
    monkeypatch.setattr(children, "FIRST_PAUSE", timedelta(milliseconds=20))
    started: list[Child] = []

    def begin(script: str) -> Child:
        child = Child(
            "child",
            ["-c", script],
            dict(os.environ),
            heard,
            tell=heard.notices.append,
            on_failure=heard.failed.set,
        )
        child.start()
        started.append(child)
        return child

    yield begin
    for child in started:
        child.ask_to_end()
        child.kill()
        assert child.has_ended(timedelta(seconds=PATIENCE_SECONDS))


def until(fact: Callable[[], object]) -> None:
    deadline = monotonic() + PATIENCE_SECONDS
    while not fact():
        assert monotonic() < deadline, "it never came to that"
        threading.Event().wait(0.01)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] not in "ZX"
    except OSError:
        return False


def test_what_it_prints_is_passed_on_under_its_name(
    begin: Callable[[str], Child], heard: Heard
) -> None:
    begin("import os; os.write(1, b'one\\n\\xfftwo\\n'); os.write(2, b'three')")

    assert heard.failed.wait(PATIENCE_SECONDS)
    assert heard.lines == [("child", "one"), ("child", "\ufffdtwo"), ("child", "three")]


def test_a_sink_that_fails_does_not_stop_the_process(
    begin: Callable[[str], Child], heard: Heard
) -> None:
    begin("print('full'); print('x' * 200_000); print('end')")

    assert heard.failed.wait(PATIENCE_SECONDS)
    assert [line[:4] for _, line in heard.lines] == ["full", "xxxx", "end"]


def test_an_end_before_it_was_settled_is_a_failure_with_its_last_words(
    begin: Callable[[str], Child], heard: Heard
) -> None:
    child = begin("import sys; print('turnchain: the reason'); print('noise'); sys.exit(3)")

    assert heard.failed.wait(PATIENCE_SECONDS)
    assert child.failure == "child ended with status 3: the reason"
    assert child.has_ended(timedelta(seconds=PATIENCE_SECONDS))
    assert heard.notices == []


def test_a_settled_one_that_dies_is_reported_and_started_again(
    begin: Callable[[str], Child], heard: Heard
) -> None:
    child = begin(STAYS)
    until(lambda: heard.lines)
    child.settle()
    first = child.pid

    child.kill()
    until(lambda: len(heard.lines) == 2)

    assert child.pid not in (None, first)
    assert heard.notices == ["child was ended by SIGKILL; started again in 0.02 s"]
    assert not heard.failed.is_set()


def test_the_pause_grows_while_it_keeps_ending(begin: Callable[[str], Child], heard: Heard) -> None:
    child = begin("print('up', flush=True); input()")  # standard input is closed: it ends
    child.settle()

    until(lambda: len(heard.notices) >= 3)

    pauses = [notice.split()[-2] for notice in heard.notices[:3]]
    assert pauses == ["0.02", "0.04", "0.08"]


def test_asked_to_end_it_ends_and_is_not_started_again(
    begin: Callable[[str], Child], heard: Heard
) -> None:
    child = begin(STAYS)
    until(lambda: heard.lines)
    child.settle()

    child.ask_to_end()

    assert child.has_ended(timedelta(seconds=PATIENCE_SECONDS))
    assert child.pid is None
    assert heard.notices == []


def test_asked_to_end_between_two_starts_it_is_not_started_again(
    begin: Callable[[str], Child], heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "FIRST_PAUSE", timedelta(minutes=1))
    child = begin("pass")
    child.settle()
    until(lambda: heard.notices)

    child.ask_to_end()

    assert child.has_ended(timedelta(seconds=PATIENCE_SECONDS))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_killing_it_takes_its_children_along(begin: Callable[[str], Child], heard: Heard) -> None:
    forks = f"import os\nif os.fork():\n  print('up', flush=True)\n{STAYS.replace('; ', chr(10))}"
    child = begin(forks)
    until(lambda: len(heard.lines) >= 2)
    pids = [child.pid or 0, *child.children()]
    assert len(pids) == 2

    child.kill()

    assert [pid for pid in pids if is_alive(pid)] == []


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_it_leaves_behind_ends_with_it(begin: Callable[[str], Child], heard: Heard) -> None:
    begin(LEAVES_A_CHILD)

    assert heard.failed.wait(PATIENCE_SECONDS)

    ((_, pid),) = heard.lines
    until(lambda: not is_alive(int(pid)))


def test_a_stopped_one_is_not_taken_for_dead(begin: Callable[[str], Child], heard: Heard) -> None:
    child = begin(STAYS)
    until(lambda: heard.lines)
    child.settle()
    pid = child.pid or 0

    os.kill(pid, signal.SIGSTOP)
    until(lambda: Path(f"/proc/{pid}/stat").read_text().split()[2] == "T")
    os.kill(pid, signal.SIGCONT)

    assert child.pid == pid
    assert heard.notices == []
