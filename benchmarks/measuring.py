"""Sessions that talk without a pause: what one cell of the table is made of."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from secrets import token_hex
from time import monotonic

from benchmarks.contenders import Running
from benchmarks.figures import percentile
from benchmarks.machine import Reading, Spent, between
from benchmarks.work import SESSION_TURNS, Shape


@dataclass(frozen=True, slots=True)
class Sample:
    """What was seen while a number of sessions talked."""

    latencies: list[float]
    """Seconds from the call to the answer, of each turn that was answered within the window."""
    spent: Spent

    @property
    def turns_per_second(self) -> float:
        """Of all sessions together."""
        return len(self.latencies) / self.spent.seconds

    @property
    def cpu_ms(self) -> dict[str, float]:
        """Milliseconds of processor time a turn, by part."""
        turns = max(1, len(self.latencies))
        return {name: 1000 * seconds / turns for name, seconds in self.spent.parts.items()}

    def latency_ms(self, percent: float) -> float | None:
        """A percentile of the latencies; None if no turn was answered."""
        return 1000 * percentile(self.latencies, percent) if self.latencies else None


@dataclass(slots=True)
class _Talk:
    """What the sessions' threads have in common."""

    running: Running
    shape: Shape
    over: threading.Event = field(default_factory=threading.Event)
    answered: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])
    failures: list[Exception] = field(default_factory=list[Exception])

    def session(self, slot: str) -> None:
        """Talk until it is over; a new session begins after its number of turns."""
        for number in itertools.count():
            if self.over.is_set():
                return
            began = monotonic()
            try:
                self.running.play(f"{slot}-{number // SESSION_TURNS}", self.shape)
            except Exception as error:  # a thread's edge: told to whoever started it
                self.failures.append(error)
                self.over.set()
                return
            ended = monotonic()
            self.answered.append((ended, ended - began))


def talk(
    running: Running,
    shape: Shape,
    read: Callable[[], Reading],
    *,
    sessions: int,
    seconds: float,
    warm_up: float,
) -> Sample:
    """Let so many sessions talk, and look at a window of so many seconds behind the warm-up.

    The window opens and closes in full swing: turns that it cuts at one end are made up for at the other.

    Raises:
        Exception: a turn failed; whatever the contender's caller raised.
    """
    shared = _Talk(running, shape)
    run = token_hex(4)
    threads = [
        threading.Thread(target=shared.session, args=(f"{run}-{number}",), daemon=True)
        for number in range(sessions)
    ]
    for thread in threads:
        thread.start()
    try:
        shared.over.wait(warm_up)
        before = read()
        shared.over.wait(seconds)
        after = read()
    finally:
        shared.over.set()
        for thread in threads:
            thread.join()
    if shared.failures:
        raise shared.failures[0]
    answered = [spent for ended, spent in shared.answered if before.at <= ended <= after.at]
    return Sample(answered, between(before, after))
