"""`python -m benchmarks`: run, show, write."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import psycopg
from redis.exceptions import RedisError

from benchmarks import counting, facts, growth, plot, profiling, recovery, results, rounds
from benchmarks.contenders import CONTENDERS, Contender
from benchmarks.options import RATE_SHAPES, is_full, parse
from benchmarks.results import Results
from benchmarks.rounds import Cell, Plan
from benchmarks.stand import Stand, stand
from benchmarks.tables import foreword, number, tables
from benchmarks.work import Shape
from turnchain.orchestrator_core.errors import TurnchainError

_LONG_SESSION_TURNS = 200
_LONG_SESSIONS = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """0 if all was measured, whatever the numbers; 2 if the run could not be made."""
    options = parse(arguments)
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, _end)
    try:
        if options.profile:
            profiling.run(
                CONTENDERS[options.profile],
                options.shapes[0],
                8 if 8 in options.sessions else options.sessions[0],
                options.seconds,
            )
            return 0
        found = results.read(options.again) if options.again else _run(options)
    except (RuntimeError, OSError, ValueError, TurnchainError, psycopg.Error, RedisError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        return 130
    name = "latest" if is_full(options) else "partial"
    _publish(found, options.out, options.again.stem if options.again else name)
    return 0


def _end(*_: object) -> None:
    """An orderly end, which stops workers and servers and removes their directory; a second signal would cut it."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, _ending)  # SIG_IGN would complain about one that is on its way
    raise KeyboardInterrupt


def _ending(*_: object) -> None:
    """Nothing more to do."""


def _run(options: argparse.Namespace) -> Results:
    contenders = [CONTENDERS[name] for name in options.only]
    for absent in [each for each in contenders if each.absence]:
        print(absent.absence)
        contenders.remove(absent)
    with stand(options.pool, options.concurrency, events=options.events) as place:
        found = Results(
            began_at=datetime.now(UTC),
            machine=facts.machine(place),
            versions=facts.versions(place),
            settings={
                "pool": options.pool,
                "concurrency": options.concurrency,
                "rounds": options.rounds,
                "seconds": options.seconds,
                "turns": options.turns,
                "events": options.events,
                **facts.postgres_settings(place),
            },
        )
        measures = {"rates": _rates, "counts": _counts, "growth": _growth, "recovery": _recovery}
        for part in options.parts:
            measures[part](options, place, contenders, found)
    return found


def _rates(
    options: argparse.Namespace, place: Stand, contenders: Sequence[Contender], found: Results
) -> None:
    plan = Plan(
        rounds=options.rounds,
        seconds=options.seconds,
        sessions=options.sessions,
        shapes=options.shapes,
    )
    found.cells += rounds.run(place, contenders, plan, _tell)


def _counts(
    options: argparse.Namespace, place: Stand, contenders: Sequence[Contender], found: Results
) -> None:
    for each in contenders:
        for shape in [shape for shape in RATE_SHAPES if shape in each.shapes]:
            if shape in options.shapes:
                print(f"counting {each.name}, {shape}", flush=True)
                found.counted.append(counting.count(place, each, shape, options.turns))


def _growth(
    options: argparse.Namespace, place: Stand, contenders: Sequence[Contender], found: Results
) -> None:
    for each in contenders:
        # What keeps everything anyway is measured once.
        for shape in [shape for shape in (Shape.SINGLE, Shape.KEPT) if shape in each.growing]:
            print(f"the long session of {each.name}, {shape}", flush=True)
            found.grown.append(growth.grow(place, each, shape, _LONG_SESSION_TURNS, _LONG_SESSIONS))


def _recovery(
    options: argparse.Namespace, place: Stand, contenders: Sequence[Contender], found: Results
) -> None:
    for each in contenders:
        if Shape.FIVE in each.shapes:
            for killed in recovery.Killed:
                print(f"killing {each.name}, {killed}", flush=True)
                found.recovered.append(recovery.recover(place, each, killed))


def _tell(cell: Cell) -> None:
    parts = ", ".join(f"{name} {number(value)}" for name, value in cell.cpu_ms.items())
    print(
        f"round {cell.round}  {cell.contender:<12}{cell.shape:<7}{cell.sessions:>3} sessions"
        f"{number(cell.turns_per_second):>6} turns/s  p50 {number(cell.p50_ms):>5}  p95 {number(cell.p95_ms):>5}"
        f"  p99 {number(cell.p99_ms):>5} ms  CPU {number(cell.cpu_ms_total):>5} ms a turn ({parts})"
        f"  foreign {cell.foreign_load:.0%}{'' if cell.is_calm else ' ~'}",
        flush=True,
    )


def _publish(found: Results, directory: Path, name: str) -> None:
    made = tables(found)
    print("", foreword(found), *(table.text() for table in made), sep="\n\n")
    results.write(found, directory / f"{name}.json")
    page = [foreword(found), *(table.markdown() for table in made)]
    (directory / f"{name}.md").write_text("\n\n".join(page) + "\n")
    if found.cells:
        plot.draw(found, directory / f"{name}.png")
    print(f"\nwritten to {directory / name}.json, .md and .png")


if __name__ == "__main__":
    sys.exit(main())
