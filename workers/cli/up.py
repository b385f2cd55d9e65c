"""`turnchain up`: servers, workers, beat and Flower on this machine, without Docker."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import signal
import sys
from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Final

from turnchain.orchestrator_core.errors import SettingsError, StoreUnavailableError
from turnchain.orchestrator_core.registry import ENTRY_POINT_GROUP

if TYPE_CHECKING:
    from turnchain.workers.stack import Stack

SUMMARY: Final = "run Postgres, Valkey, workers, beat and Flower on this machine, without Docker"
EXAMPLE: Final = "turnchain.examples.booking.bot:booking"
_NEEDED: Final = ("celery", "psycopg", "redis")
_ORCHESTRATORS: Final = "TURNCHAIN_ORCHESTRATORS"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """All have a default that works."""
    parser.add_argument(
        "--directory",
        type=Path,
        help="where everything is kept, and found again by the next run "
        "(default: .turnchain; for root, whose directories the servers' user may not enter, /var/lib/turnchain)",
    )
    parser.add_argument("--workers", type=_number, default=2, metavar="N", help="default: 2")
    parser.add_argument(
        "--pool", choices=("threads", "prefork"), default="threads", help="default: threads"
    )
    parser.add_argument(
        "--concurrency",
        type=_number,
        metavar="N",
        help="stages that one worker runs at once (default: 16 with threads, one a processor with prefork)",
    )
    for server, usual in (("postgres", 5432), ("redis", 6379), ("flower", 5555)):
        parser.add_argument(
            f"--{server}-port",
            type=_port,
            metavar="PORT",
            help=f"default: {usual}, or the next that is free",
        )
    parser.add_argument("--no-flower", dest="flower", action="store_false")


def run(options: argparse.Namespace) -> int:
    """Until Ctrl-C or SIGTERM, which is 0, or until a server ends: 1. An interrupted start is 128 + the signal."""
    try:
        return _run(options)
    except KeyboardInterrupt:  # before anything was begun
        return 128 + signal.SIGINT


def _run(options: argparse.Namespace) -> int:
    for module in _NEEDED:
        if importlib.util.find_spec(module) is None:
            raise SettingsError(
                f"{module} is not installed: pip install 'turnchain[worker,flower,embedded]'"
            )
    from turnchain.workers.stack import (
        Console,
        Interrupted,
        StackOptions,
        interruptible,
        running,
        usual_directory,
    )

    console = Console(sys.stdout, on_closed=lambda: os.kill(os.getpid(), signal.SIGHUP))

    def tell(sentence: str) -> None:
        console.write("turnchain", sentence)

    stack_options = StackOptions(
        directory=options.directory or usual_directory(),
        workers=options.workers,
        pool=options.pool,
        concurrency=options.concurrency,
        postgres_port=options.postgres_port,
        redis_port=options.redis_port,
        flower_port=options.flower_port,
        flower=options.flower,
        environ=_serving_something(os.environ, tell),
    )
    is_up = False
    try:
        with (
            interruptible() as interrupts,
            running(stack_options, tell=tell, sink=console, interrupts=interrupts) as stack,
        ):
            is_up = True
            console.show(_summary(stack))
            try:
                stack.wait()
            finally:
                tell("ending: workers hand back what they are at")
    except Interrupted as interrupted:
        return 0 if is_up else 128 + interrupted.signum
    except StoreUnavailableError as error:
        if not is_up:
            raise
        sys.stderr.write(f"turnchain up: {error}\n")
        return 1
    return 0


def _serving_something(
    environ: Mapping[str, str], tell: Callable[[str], None]
) -> Mapping[str, str]:
    """For a first look, workers serve our example where nobody says what else."""
    if environ.get(_ORCHESTRATORS) or entry_points(group=ENTRY_POINT_GROUP):
        return environ
    tell(
        f"{_ORCHESTRATORS} is not set: the workers serve the example {EXAMPLE}; "
        "set it to package.module:attribute of your own"
    )
    return {**environ, _ORCHESTRATORS: EXAMPLE}


def _summary(stack: Stack) -> str:
    """Where everything is, and what a client needs to know."""
    variables = {
        "TURNCHAIN_POSTGRES_URL": stack.postgres_url,
        "TURNCHAIN_BROKER_URL": stack.broker_url,
        **{name: value for name, value in stack.environ.items() if name == "TURNCHAIN_KEY_PREFIX"},
    }
    urls = [
        ("Postgres", stack.postgres_url),
        ("Redis", stack.broker_url),
        *([("Flower", stack.flower_url)] if stack.flower_url else []),
    ]
    return "\n".join(
        [
            "",
            f"Everything runs, in {stack.directory}. Ctrl-C ends it; the next start finds its data there.",
            "",
            *(f"  {name:<10}{url}" for name, url in urls),
            "",
            "A client needs, in its shell:",
            "",
            *(f"  export {name}={shlex.quote(value)}" for name, value in variables.items()),
            "",
            "",
        ]
    )


def _number(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least 1")
    return int(text)


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) < 2**16:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a port, which is a number from 1 to 65535"
        )
    return int(text)
