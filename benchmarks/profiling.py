"""Where a turn's time goes: cProfile in a worker's parent and children, shown in milliseconds a turn.

cProfile makes calls dear, so functions that call much look worse than they are; compare, do not add up.
"""

from __future__ import annotations

import itertools
import pstats
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.contenders import Contender
from benchmarks.measuring import talk
from benchmarks.rounds import gauge
from benchmarks.stand import stand
from benchmarks.work import Shape

_ROWS = 45
_PLACES = ("site-packages/", "/lib/python", "/turnchain/")


@dataclass(frozen=True, slots=True)
class Row:
    """A function's share of a turn, in milliseconds."""

    own: float
    whole: float
    """With all that it called."""
    calls: float
    name: str


def run(contender: Contender, shape: Shape, sessions: int, seconds: float) -> None:
    """Profile a contender's worker and print the dearest functions of its children and its parent."""
    with tempfile.TemporaryDirectory(prefix="turnchain-profiles-") as place:
        profiles = Path(place)
        counter = itertools.count()
        with (
            stand("prefork", 2, profiles) as found,
            found.place(contender.name) as where,
        ):
            with contender.running(found, where) as running:
                counted = replace(running, play=_counting(running.play, counter))
                read = gauge(found, {contender.name: running}, contender.name)
                talk(counted, shape, read, sessions=sessions, seconds=seconds, warm_up=0)
            turns = next(counter)
            for kind in ("child", "parent"):
                _show(
                    f"{contender.name}, {kind}", rows_of(sorted(profiles.glob(f"{kind}-*")), turns)
                )
    print(f"\n{turns} turns of {contender.name}, {shape}, {sessions} sessions")


def rows_of(files: Sequence[Path], turns: int) -> list[Row]:
    """What the profiles say together, a turn."""
    if not files or not turns:
        return []
    stats: Any = pstats.Stats(*map(str, files))
    return [
        Row(1000 * own / turns, 1000 * whole / turns, calls / turns, _called(*function))
        for function, (_, calls, own, whole, _) in stats.stats.items()
    ]


def _show(title: str, rows: Sequence[Row]) -> None:
    total = sum(row.own for row in rows)
    by_own = sorted(rows, key=lambda row: -row.own)
    by_whole = sorted(rows, key=lambda row: -row.whole)
    for heading, ordered in (("by own time", by_own), ("with what it called", by_whole)):
        print(f"\n{title}, {heading} ({total:.2f} ms a turn in all)")
        print(f"{'own ms':>9}{'with ms':>9}{'calls':>8}")
        for row in ordered[:_ROWS]:
            print(f"{row.own:9.3f}{row.whole:9.3f}{row.calls:8.1f}  {row.name}")


def _called(file: str, line: int, function: str) -> str:
    for place in _PLACES:
        file = file.rpartition(place)[2]
    return f"{file}:{line} {function}" if line else function


def _counting(
    play: Callable[[str, Shape], None], counter: itertools.count[int]
) -> Callable[[str, Shape], None]:
    def counted(session: str, shape: Shape) -> None:
        play(session, shape)
        next(counter)

    return counted
