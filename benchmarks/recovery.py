"""A SIGKILL inside the third of five iterations: how long until the answer, and what was run again.

At shipped settings; nothing is restarted by hand. A killed worker leaves a second one, which was idle.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import threading
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from time import monotonic

from benchmarks.contenders import Contender
from benchmarks.fleet import wait_for
from benchmarks.stand import Stand
from benchmarks.work import EVIDENCE_VARIABLE, HANGS_IN, Shape, evidence

LIMIT_SECONDS = 40.0
"""How long a recovery is waited for: longer than Turnchain's lease and sweep together."""


class Killed(StrEnum):
    """What got the signal."""

    CHILD = "child"
    WORKER = "worker"
    """The parent and all its children at once, as when a host goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """How a contender's turn came back."""

    contender: str
    killed: Killed
    seconds: float | None
    """From the signal to the answer; None if there was none within the limit."""
    rerun: int | None
    """Iterations that ran more than once, the one that was cut among them."""


def recover(stand: Stand, contender: Contender, killed: Killed) -> Recovered:
    """Hang a turn, kill, and wait for its answer."""
    answered = threading.Event()
    answered_at: list[float] = []
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(stand.place(contender.name))
        file = stand.directory / f"evidence-{contender.name}-{killed}"
        place = dataclasses.replace(place, environ={EVIDENCE_VARIABLE: str(file)})
        running = stack.enter_context(contender.running(stand, place))

        def ask() -> None:
            # A caller that is given up at the end of the block fails in its own way.
            with contextlib.suppress(Exception):
                running.play("killed", Shape.FIVE)
                answered_at.append(monotonic())
            answered.set()

        threading.Thread(target=ask, daemon=True).start()
        victim = wait_for(lambda: _hanging(file), LIMIT_SECONDS, "the iteration that hangs")
        if killed is Killed.WORKER:
            stack.enter_context(contender.worker(stand, place, f"{contender.name}-second"))
            began = monotonic()
            running.worker.kill()
        else:
            began = monotonic()
            os.kill(victim, signal.SIGKILL)
        answered.wait(LIMIT_SECONDS)
        seen = [iteration for iteration, _ in evidence(file)]
    seconds = answered_at[0] - began if answered_at else None
    return Recovered(
        contender=contender.name,
        killed=killed,
        seconds=seconds,
        rerun=None if seconds is None else len(seen) - len(set(seen)),
    )


def _hanging(file: Path) -> int | None:
    """The process that hangs."""
    return next((pid for iteration, pid in evidence(file) if iteration == HANGS_IN), None)
