"""`turnchain demo`: real workers, real servers, one kill in the middle of a turn, and the counts."""

from __future__ import annotations

import argparse
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Protocol, cast

from turnchain.orchestrator_core.errors import SettingsError

SUMMARY: Final = "play the sample dialogues on a stack of its own, and kill a worker inside a turn"
_NEEDED: Final = ("celery", "flower", "psycopg", "redis", "rich")
_MOST_WORKERS: Final = 16
_MOST_SECONDS: Final = 3600


class _Demo(Protocol):
    """The module that plays it."""

    def run(self, options: argparse.Namespace) -> int:
        """Play, and return the exit code."""
        ...


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--dialogues",
        type=Path,
        metavar="FILE",
        help="dialogues of your own, one JSON object a line (default: the sample)",
    )
    parser.add_argument("--workers", type=_workers, default=2, metavar="N", help="default: 2")
    parser.add_argument(
        "--seconds",
        type=_number,
        default=20,
        metavar="S",
        help="repeat the dialogues for about so long; they are played once at least (default: 20)",
    )
    parser.add_argument("--no-kill", action="store_true", help="let every worker live")
    parser.add_argument("--keep", action="store_true", help="leave everything up until Ctrl-C")
    parser.add_argument(
        "--directory",
        type=Path,
        metavar="DIR",
        help="where the servers keep data and logs (default: a temporary one)",
    )


def run(options: argparse.Namespace) -> int:
    """0 if nothing was lost, doubled or wrong, 1 if something was, 130 if it was interrupted."""
    for package in _NEEDED:
        if find_spec(package) is None:
            raise SettingsError(
                f"{package} is not installed: pip install 'turnchain[worker,flower,embedded]'"
            )
    # By name: the examples stand above the workers, and only this command needs one.
    return cast("_Demo", import_module("turnchain.examples.booking.demo")).run(options)


def _workers(text: str) -> int:
    return _number(text, _MOST_WORKERS)


def _number(text: str, most: int = _MOST_SECONDS) -> int:
    value = int(text) if text.isascii() and text.isdigit() else 0
    if not 1 <= value <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {most}")
    return value
