"""The operator's commands: `turnchain …`, or `python -m turnchain.workers …`; one file a command.

A command's module offers `SUMMARY`, `add_arguments(parser)` and `run(options) -> exit code`. It is imported only when
it is the one that was asked for, or for its line of help: so it imports what is heavy inside its functions.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final, Protocol, cast

from turnchain.orchestrator_core.errors import TurnchainError

COMMANDS: Final = ("demo", "up", "why", "turns", "sessions", "settings", "schema")
"""In the order of the help; each is a module of this package."""


class Command(Protocol):
    """What a command's module offers."""

    SUMMARY: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare its options."""
        ...

    def run(self, options: argparse.Namespace) -> int:
        """Do it and return the exit code: 0, or 1 for a bad finding.

        Raises:
            TurnchainError: it could not be done; the message is shown, the exit code is 2.
        """
        ...


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    parser = argparse.ArgumentParser(
        prog="turnchain", description="Durable multi-turn agent sessions on Celery."
    )
    parsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        command = _command(name)
        command.add_arguments(
            parsers.add_parser(name, help=command.SUMMARY, description=command.SUMMARY)
        )
    options = parser.parse_args(arguments)
    try:
        return _command(options.command).run(options)
    except TurnchainError as error:
        sys.stderr.write(f"turnchain {options.command}: {error}\n")
        return 2
    except KeyboardInterrupt:
        return 130  # as a shell says of Ctrl-C


def _command(name: str) -> Command:
    return cast("Command", import_module(f"{__name__}.{name}"))
