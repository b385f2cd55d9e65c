from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from benchmarks.contenders import CONTENDERS, Running
from benchmarks.rounds import Cell, Plan, rotated, run
from benchmarks.work import TEXT_LENGTH, Shape, text_of

STAND: Any = SimpleNamespace(
    place=lambda name: contextlib.nullcontext(name), postgres_pid=None, redis_pid=None
)


@dataclass
class Quick:
    """Answers at once."""

    name: str
    shapes: Sequence[Shape]
    growing: Sequence[Shape] = ()
    absence: str | None = None

    @contextlib.contextmanager
    def running(self, stand: Any, place: Any) -> Generator[Running]:
        worker: Any = SimpleNamespace(pid=os.getpid())
        yield Running(lambda session, shape: None, worker)

    def worker(self, stand: Any, place: Any, name: str) -> Any:
        raise NotImplementedError


def test_every_cell_is_run_by_one_contender_after_the_other_before_the_next() -> None:
    contenders = [Quick("a", [*Shape]), Quick("b", [*Shape])]
    plan = Plan(rounds=2, seconds=0.01, sessions=[1, 2], shapes=[Shape.SINGLE])
    told: list[Cell] = []

    cells = run(STAND, contenders, plan, told.append)

    assert cells == told
    assert [(cell.round, cell.sessions, cell.contender) for cell in cells] == [
        (1, 1, "a"), (1, 1, "b"), (1, 2, "a"), (1, 2, "b"),
        (2, 1, "b"), (2, 1, "a"), (2, 2, "b"), (2, 2, "a"),
    ]  # fmt: skip


def test_a_contender_is_spared_the_turns_that_it_cannot_run() -> None:
    contenders = [Quick("a", [Shape.SINGLE, Shape.FIVE]), Quick("b", [Shape.SINGLE])]
    plan = Plan(rounds=1, seconds=0.01, sessions=[1], shapes=[Shape.SINGLE, Shape.FIVE])

    cells = run(STAND, contenders, plan, lambda cell: None)

    assert [(cell.contender, cell.shape) for cell in cells] == [
        ("a", Shape.SINGLE), ("b", Shape.SINGLE), ("a", Shape.FIVE),
    ]  # fmt: skip


def test_each_round_has_another_contender_first() -> None:
    contenders = [*CONTENDERS.values()]

    firsts = [rotated(contenders, number)[0].name for number in range(len(contenders))]

    assert sorted(firsts) == sorted(CONTENDERS)
    assert all(len(rotated(contenders, number)) == len(contenders) for number in range(6))


def test_every_iteration_adds_two_kilobytes_that_are_its_own() -> None:
    texts = {
        text_of(turn, iteration)
        for turn in ("a", "b")
        for iteration in range(Shape.FIVE.iterations)
    }

    assert len(texts) == 10
    assert {len(text) for text in texts} == {TEXT_LENGTH}
    assert text_of("a", 0) == text_of("a", 0)
