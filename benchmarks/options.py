"""The command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from benchmarks.contenders import CONTENDERS
from benchmarks.work import Shape

RESULTS = Path(__file__).with_name("results")
PARTS = ("rates", "counts", "growth", "recovery")
RATE_SHAPES = (Shape.SINGLE, Shape.FIVE)

T = TypeVar("T")

_FULL = {"rounds": 3, "seconds": 4.0, "sessions": [1, 8, 64], "turns": 300, "parts": [*PARTS]}
_QUICK = {
    "rounds": 1, "seconds": 2.0, "sessions": [1, 8], "turns": 60, "parts": ["rates", "counts"],
}  # fmt: skip


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options; those that were not given are the full run's, or the quick one's."""
    options = _parser().parse_args(arguments)
    for name, value in (_QUICK if options.quick else _FULL).items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options


def is_full(options: argparse.Namespace) -> bool:
    """Whether a run is one to publish: everything that there is, at least as often as by default."""
    return (
        not options.quick
        and options.parts == [*PARTS]
        and options.only == [*CONTENDERS]
        and options.sessions == _FULL["sessions"]
        and options.shapes == [*RATE_SHAPES]
        and options.rounds >= _FULL["rounds"]
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure Turnchain beside a chain of seven no-op tasks and a hand-written task: "
        "everything in about ten minutes, or a part of it.",
        epilog="Servers are started from wheels, with fsync on, or are those that TURNCHAIN_POSTGRES_URL and "
        "TURNCHAIN_BROKER_URL name.",
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="a look of about a minute")
    add("--only", type=_list(_name, "contenders"), default=[*CONTENDERS], help=",".join(CONTENDERS))
    add("--parts", type=_list(_part, "parts"), help=",".join(PARTS))
    add(
        "--shapes", type=_list(_shape, "shapes"), default=[*RATE_SHAPES], help=",".join(RATE_SHAPES)
    )
    add("--sessions", type=_list(_positive, "numbers"), help="at once (1,8,64)")
    add("--rounds", type=_positive, help="medians are over these (3)")
    add("--seconds", type=_seconds, help="of each window (4)")
    add("--turns", type=_positive, help="of each counting pass (300)")
    add("--pool", choices=("prefork", "threads"), default="prefork")
    add("--concurrency", type=_positive, default=2, help="of the one worker")
    add("--events", action="store_true", help="task events from all workers, not Turnchain's only")
    add(
        "--profile", type=_name, metavar="CONTENDER", help="show where its turns' time goes instead"
    )
    add("--again", type=Path, metavar="JSON", help="show, draw and write an earlier run again")
    add("--out", type=Path, default=RESULTS, help="directory of the results")
    return parser


def _list(kind: Callable[[str], T], what: str) -> Callable[[str], list[T]]:
    def listed(text: str) -> list[T]:
        found = [kind(word.strip()) for word in text.split(",") if word.strip()]
        if not found:
            raise argparse.ArgumentTypeError(f"{text!r} names no {what}")
        return found

    return listed


def _name(text: str) -> str:
    return _one_of(text, tuple(CONTENDERS))


def _part(text: str) -> str:
    return _one_of(text, PARTS)


def _shape(text: str) -> Shape:
    return Shape(_one_of(text, RATE_SHAPES))


def _one_of(text: str, known: Sequence[str]) -> str:
    if text not in known:
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(known)}")
    return text


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of at least 1")
    return int(text)


def _seconds(text: str) -> float:
    try:
        if (value := float(text)) > 0:
            return value
    except ValueError:
        pass
    raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
