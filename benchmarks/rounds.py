"""Rounds: in each, every cell is run by one contender after the other, each time in another order."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.contenders import Contender, Running
from benchmarks.machine import IDLE, Reading, read
from benchmarks.measuring import Sample, talk
from benchmarks.stand import Stand
from benchmarks.work import Shape

CALM = 0.15
"""A foreign load above this marks a row, and keeps it out of the medians where enough others are left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One contender's number in one round."""

    round: int
    contender: str
    shape: Shape
    sessions: int
    seconds: float
    turns: int
    turns_per_second: float
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    cpu_ms: Mapping[str, float]
    """A turn, by part."""
    foreign_load: float

    @property
    def cpu_ms_total(self) -> float:
        """A turn, over all processes."""
        return sum(self.cpu_ms.values())

    @property
    def is_calm(self) -> bool:
        """Whether the machine was left to the benchmark."""
        return self.foreign_load <= CALM


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a run measures."""

    rounds: int
    seconds: float
    sessions: Sequence[int]
    shapes: Sequence[Shape]

    @property
    def warm_up(self) -> float:
        """Seconds before each window."""
        return min(1.0, self.seconds / 3)


def run(
    stand: Stand, contenders: Sequence[Contender], plan: Plan, told: Callable[[Cell], None]
) -> list[Cell]:
    """All cells of all rounds. Every contender's worker is up all the time; one of them has turns to run."""
    cells: list[Cell] = []
    with contextlib.ExitStack() as stack:
        running = {
            each.name: stack.enter_context(
                each.running(stand, stack.enter_context(stand.place(each.name)))
            )
            for each in contenders
        }
        for number in range(1, plan.rounds + 1):
            for shape in plan.shapes:
                for sessions in plan.sessions:
                    for each in rotated(contenders, number - 1):
                        if shape in each.shapes:
                            sample = talk(
                                running[each.name],
                                shape,
                                gauge(stand, running, each.name),
                                sessions=sessions,
                                seconds=plan.seconds,
                                warm_up=plan.warm_up,
                            )
                            cells.append(_cell(number, each.name, shape, sessions, sample))
                            told(cells[-1])
    return cells


def rotated(contenders: Sequence[Contender], by: int) -> list[Contender]:
    """Everybody, another one first in each round."""
    by %= max(1, len(contenders))
    return [*contenders[by:], *contenders[:by]]


def gauge(stand: Stand, running: Mapping[str, Running], measured: str) -> Callable[[], Reading]:
    """What reads the processor time of one contender while the others idle."""
    trees = {
        "worker": [running[measured].worker.pid],
        "postgres": [stand.postgres_pid] if stand.postgres_pid else [],
        "redis": [stand.redis_pid] if stand.redis_pid else [],
        IDLE: [each.worker.pid for name, each in running.items() if name != measured],
    }
    return lambda: read(trees)


def _cell(number: int, contender: str, shape: Shape, sessions: int, sample: Sample) -> Cell:
    return Cell(
        round=number,
        contender=contender,
        shape=shape,
        sessions=sessions,
        seconds=sample.spent.seconds,
        turns=len(sample.latencies),
        turns_per_second=sample.turns_per_second,
        p50_ms=sample.latency_ms(50),
        p95_ms=sample.latency_ms(95),
        p99_ms=sample.latency_ms(99),
        cpu_ms=sample.cpu_ms,
        foreign_load=sample.spent.foreign_load,
    )
