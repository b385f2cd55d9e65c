"""The long session: what its last turns cost beside its first, and how many bytes it has grown to."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic

from benchmarks.contenders import Contender
from benchmarks.counters import counters
from benchmarks.stand import Stand
from benchmarks.work import Shape

WEIGHED_AFTER = (50, 100, 200)
"""Turns after which a session's bytes are looked at."""
_WINDOW = 10
"""Turns that are looked at together, since a single one may meet anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """A contender's long session."""

    contender: str
    shape: Shape
    sessions: int
    ms: Sequence[float]
    """Of each turn, the median over the sessions."""
    bytes: Mapping[int, int]
    """What the first session added to the database, by the number of its turns."""

    @property
    def early_ms(self) -> float:
        """Around the second turn; the first one makes the session."""
        return statistics.median(self.ms[1 : 1 + _WINDOW])

    @property
    def late_ms(self) -> float:
        """At the end."""
        return statistics.median(self.ms[-_WINDOW:])

    @property
    def ratio(self) -> float:
        """Late to early."""
        return self.late_ms / self.early_ms


def grow(stand: Stand, contender: Contender, shape: Shape, turns: int, sessions: int) -> Grown:
    """Sessions of so many turns, one after the other, in a new database."""
    runs: list[list[float]] = []
    weights: dict[int, int] = {}
    with (
        stand.place(contender.name) as place,
        contender.running(stand, place) as running,
        counters(place) as counter,
    ):
        running.play("first", shape)
        running.settle()
        empty = sum(counter.table_sizes().values())
        for number in range(sessions):
            run: list[float] = []
            for turn in range(1, turns + 1):
                began = monotonic()
                running.play(f"long-{number}", shape)
                run.append(1000 * (monotonic() - began))
                if number == 0 and turn in WEIGHED_AFTER:
                    running.settle()
                    weights[turn] = sum(counter.table_sizes().values()) - empty
            runs.append(run)
    ms = [statistics.median(each) for each in zip(*runs, strict=True)]
    return Grown(contender=contender.name, shape=shape, sessions=sessions, ms=ms, bytes=weights)
