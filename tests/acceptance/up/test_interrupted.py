"""`turnchain up`, and somebody who does not want it any more."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.up.harness import Up, ask

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(180)]

MOMENTS: dict[str, Callable[[Up], object]] = {
    "as soon as there is a directory": lambda up: up.directory.exists(),
    "while the cluster is made": lambda up: (up.directory / "postgres/data.new").exists(),
    "while Postgres starts": lambda up: (up.directory / "postgres/data/postmaster.pid").exists(),
    "while Valkey starts": lambda up: (up.directory / "valkey/data").exists(),
    "while the tables are made": lambda up: up.processes("valkey-server"),
    "while the workers start": lambda up: up.processes("worker1@"),
    "when one has answered": lambda up: "ready." in up.said,
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_an_interrupted_first_start_leaves_nothing(up: Callable[..., Up], moment: str) -> None:
    starting = up("--workers", "1").start()
    starting.wait_until(lambda: MOMENTS[moment](starting))

    status = starting.end(signal.SIGINT)

    # It may just have been up when the signal came.
    assert status in ((130,) if "Everything runs" not in starting.said else (0,))
    assert starting.complaint == ""
    assert starting.processes() == []
    assert starting.directory.exists() == (status == 0)


def test_whoever_asks_twice_does_not_wait_for_the_workers(
    up: Callable[..., Up], project: Path
) -> None:
    running = up(
        "--workers",
        "1",
        "--no-flower",
        TURNCHAIN_ORCHESTRATORS="sleeper:sleeper",
        TURNCHAIN_HAND_BACK_GRACE="600",
    )
    (project / "sleeper.py").write_text(
        """
import threading
from turnchain import Orchestrator

def answer(ctx):
    open("asleep", "w").close()
    threading.Event().wait(600)

sleeper = Orchestrator(name="sleeper", intents={"answer": answer}, route=lambda ctx: "answer")
"""
    )
    running.start().wait_until_up()
    ask(running, "sleeper")
    running.wait_until(lambda: (project / "asleep").exists())

    running.running.send_signal(signal.SIGTERM)
    running.wait_until(lambda: "ending: " in running.said)

    assert running.end(signal.SIGTERM) == 0
    assert "worker1 did not end in time: killed" in running.said
    assert running.processes() == []


def test_a_reader_that_goes_away_ends_it_quietly(up: Callable[..., Up]) -> None:
    """As `turnchain up | head` does."""
    running = up("--workers", "1", "--no-flower")
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb"), os.fdopen(writer, "wb") as out:
        running.start(out)
        running.wait_until(lambda: running.processes("worker1@"))

    assert running.running.wait(60) in (0, 129)
    assert running.complaint == ""
    running.wait_until_none_is_left()


def test_it_ignores_what_nohup_has_it_ignore(up: Callable[..., Up]) -> None:
    running = up("--workers", "1", "--no-flower")
    running.start(ignoring=signal.SIGHUP).wait_until_up()

    running.running.send_signal(signal.SIGHUP)

    assert ask(running) == "HELLO\n"
    assert running.end() == 0
