"""The results as tables, for a terminal and for Markdown."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from benchmarks.growth import WEIGHED_AFTER, Grown
from benchmarks.machine import PARTS
from benchmarks.recovery import LIMIT_SECONDS
from benchmarks.results import Results
from benchmarks.rounds import CALM
from benchmarks.targets import judge
from benchmarks.work import Shape

SHAPES = {
    Shape.SINGLE: "one iteration",
    Shape.FIVE: "five iterations",
    Shape.KEPT: "one iteration, everything kept",
}
_TABLES_SHOWN = 8
NONE = "-"


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table of texts; the first row is the head."""

    title: str
    rows: Sequence[Sequence[str]]

    def text(self) -> str:
        """For a terminal."""
        widths = [max(map(len, column)) for column in zip(*self.rows, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) if place == 0 else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in self.rows
        ]
        return "\n".join([self.title, *lines])

    def markdown(self) -> str:
        """For a page."""
        head, *rows = ["| " + " | ".join(row) + " |" for row in self.rows]
        rule = "|" + "|".join(["---"] + ["---:"] * (len(self.rows[0]) - 1)) + "|"
        return "\n".join([f"**{self.title}**", "", head, rule, *rows])


def tables(results: Results) -> list[Table]:
    """Those that have rows."""
    made = [
        *_rates(results),
        _counts(results),
        _bytes(results),
        _growth(results),
        _recovery(results),
        _verdict(results),
    ]
    return [table for table in made if len(table.rows) > 1]


def foreword(results: Results) -> str:
    """On what the run was made, in two sentences."""
    machine, versions, settings = results.machine, results.versions, results.settings
    ground = (
        f"{results.began_at:%Y-%m-%d}, commit {versions['commit']}: {machine['cpus']} processors "
        f"({machine['processor']}), fdatasync {machine['fdatasync_ms']} ms, "
        f"PostgreSQL {versions['postgres_server']} with fsync {settings['fsync']}, {versions['redis_server']}, "
        f"Celery {versions['celery']}, Python {versions['python']}, one worker of "
        f"{settings['concurrency']} {settings['pool']}."
    )
    if not results.cells:
        return ground
    noisy = sum(not cell.is_calm for cell in results.cells)
    return (
        f"{ground} Medians of {settings['rounds']} rounds of {settings['seconds']:g} s, contenders side by side; "
        f"{noisy} of {len(results.cells)} cells had more than {CALM:.0%} foreign load (~: the median rests on such)."
    )


def _rates(results: Results) -> Iterator[Table]:
    for shape in dict.fromkeys(cell.shape for cell in results.cells):
        sessions = sorted({cell.sessions for cell in results.cells if cell.shape is shape})
        names = dict.fromkeys(cell.contender for cell in results.cells if cell.shape is shape)
        at = " / ".join(f"@{number}" for number in sessions)
        cpu_at = 8 if 8 in sessions else sessions[-1]
        head = ["", f"turns/s {at}", f"p50 ms {at}", f"p95 ms {at}", f"p99 ms {at}"]
        head += [f"CPU ms a turn @{cpu_at}", " + ".join(PARTS)]
        rows = [
            [
                name + _noise(results, name, shape, sessions),
                *(
                    " / ".join(
                        number(results.value(measure, name, shape, each)) for each in sessions
                    )
                    for measure in ("turns_per_second", "p50_ms", "p95_ms", "p99_ms")
                ),
                number(results.value("cpu_ms_total", name, shape, cpu_at)),
                _split(results, name, shape, cpu_at),
            ]
            for name in names
        ]
        yield Table(f"A turn of {SHAPES[shape]}, at {at} sessions", [head, *rows])


def _noise(results: Results, name: str, shape: Shape, sessions: Sequence[int]) -> str:
    cells = [c for each in sessions for c in results.cells_of(name, shape, each).values()]
    return "" if all(cell.is_calm for cell in cells) else " ~"


def _split(results: Results, name: str, shape: Shape, sessions: int) -> str:
    cells = [*results.cells_of(name, shape, sessions).values()]
    means = [sum(cell.cpu_ms.get(part, 0.0) for cell in cells) / len(cells) for part in PARTS]
    return " + ".join(map(number, means))


def _counts(results: Results) -> Table:
    head = [
        "a turn, alone on its servers",
        "statements",
        "commits",
        "fsyncs",
        "WAL kB",
        "Postgres kB",
    ]
    head += ["Redis commands", "Redis keys left"]
    rows = [
        [
            f"{each.contender}, {SHAPES[each.shape]}",
            number(each.statements),
            number(each.commits),
            number(each.fsyncs),
            number(each.wal_bytes / 1000),
            number(each.bytes / 1000),
            number(each.redis_commands),
            f"{len(each.keys_left)}, {sum('_kombu.' not in key for key in each.keys_left)} no binding",
        ]
        for each in results.counted
    ]
    return Table("What a turn asks of the servers", [head, *rows])


def _bytes(results: Results) -> Table:
    largest: dict[str, float] = {}
    for each in results.counted:
        for name, size in each.table_bytes.items():
            largest[name] = max(size, largest.get(name, 0.0))
    shown = sorted(largest, key=lambda name: -largest[name])[:_TABLES_SHOWN]
    rows = [
        [
            f"{each.contender}, {SHAPES[each.shape]}",
            *(number(each.table_bytes.get(name, 0.0) / 1000) for name in shown),
            number(sum(v for k, v in each.table_bytes.items() if k not in shown) / 1000),
        ]
        for each in results.counted
        if each.table_bytes
    ]
    head = [
        "kB a turn after VACUUM",
        *(name.removeprefix("turnchain_") for name in shown),
        "others",
    ]
    return Table("Where a turn's bytes are", [head, *rows])


def _growth(results: Results) -> Table:
    weights = [f"kB @{turns}" for turns in WEIGHED_AFTER]
    head = ["one session", "ms at turn 2", "ms at its last", "ratio", *weights, "bytes ~ turns ^"]
    rows = [
        [
            f"{each.contender}, {SHAPES[each.shape]}",
            number(each.early_ms),
            number(each.late_ms),
            f"{each.ratio:.2f}",
            *(
                number(each.bytes[turns] / 1000) if turns in each.bytes else NONE
                for turns in WEIGHED_AFTER
            ),
            number(exponent(each)),
        ]
        for each in results.grown
    ]
    return Table("A session of 200 turns", [head, *rows])


def exponent(grown: Grown) -> float | None:
    """With which power of the turns the bytes grow between the first and the last look."""
    turns = sorted(grown.bytes)
    if len(turns) < 2 or grown.bytes[turns[0]] <= 0 or grown.bytes[turns[-1]] <= 0:
        return None
    growth = grown.bytes[turns[-1]] / grown.bytes[turns[0]]
    return math.log(growth) / math.log(turns[-1] / turns[0])


def _recovery(results: Results) -> Table:
    head = ["SIGKILL in the third of five iterations", "answer after s", "iterations run again"]
    rows = [
        [
            f"{each.contender}, {each.killed}",
            f"not in {LIMIT_SECONDS:g}" if each.seconds is None else number(each.seconds),
            number(each.rerun),
        ]
        for each in results.recovered
    ]
    return Table("A killed process", [head, *rows])


def _verdict(results: Results) -> Table:
    head = ["target", "wanted", "found", ""]
    rows = [
        [
            each.target.says,
            f"{each.target.direction} {each.target.wanted:g} {each.target.unit}".strip(),
            f"{number(each.found)} {each.target.unit}".strip(),
            each.says,
        ]
        for each in judge(results)
        if each.found is not None
    ]
    return Table("Targets", [head, *rows])


def number(value: float | None) -> str:
    """Three digits that mean something."""
    if value is None:
        return NONE
    steps: Sequence[tuple[float, Callable[[float], str]]] = (
        (100, "{:.0f}".format),
        (10, "{:.1f}".format),
    )
    form = next((form for least, form in steps if abs(value) >= least), "{:.2f}".format)
    return form(value)
