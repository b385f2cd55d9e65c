"""What the commands share that only look: options, and one read-only connection."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from turnchain.orchestrator_core.contracts import STAGES, JSONObject, TurnRecord
from turnchain.orchestrator_core.errors import SettingsError
from turnchain.orchestrator_core.ports import Inspection
from turnchain.orchestrator_core.situation import Rules
from turnchain.orchestrator_core.standing import Standing, standing_of
from turnchain.workers.settings import Settings

_MOST: Final = 10_000


@dataclass(frozen=True, slots=True)
class Reader:
    """The ledger to look at, and what its workers run with, going by the settings here."""

    inspection: Inspection
    rules: Rules


@contextmanager
def opened() -> Generator[Reader]:
    """The ledger of TURNCHAIN_POSTGRES_URL, which may be a replica of it.

    Raises:
        SettingsError: a setting is missing or wrong, or the driver is not installed.
    """
    settings = Settings.from_env(os.environ)
    try:
        from turnchain.stores.postgres import connect
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"the package {error.name!r} is not installed: pip install 'turnchain[worker]'"
        ) from error
    # The pool logs each attempt to connect; what is wrong is said once, by the error.
    logging.getLogger("psycopg").addHandler(logging.NullHandler())
    stores = connect(settings.postgres_url, max_size=1, read_only=True)
    rules = Rules(
        policy=settings.policy,
        sweep=settings.sweep_policy,
        queues={stage: settings.queue_of(stage) for stage in STAGES},
    )
    try:
        yield Reader(stores.inspection, rules)
    finally:
        stores.close()


def add_json(parser: argparse.ArgumentParser) -> None:
    """`--json`."""
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def add_page(parser: argparse.ArgumentParser, before: Callable[[str], object], place: str) -> None:
    """What all lists take; `before` reads the place at which the next page begins."""
    parser.add_argument("--session", metavar="ID", help="only those of the session of this id")
    parser.add_argument("--orchestrator", metavar="NAME", help="only those of this orchestrator")
    parser.add_argument("--limit", type=_limit, default=50, metavar="N", help="default: 50")
    parser.add_argument("--before", type=before, metavar=place, help="the page behind this one")
    add_json(parser)


def say(text: str) -> None:
    """Tell a person what is not part of the list: so not on standard output."""
    sys.stderr.write(f"{text}\n")


def stands(turn: TurnRecord, now: datetime) -> str:
    """How a turn stands, for a table: `queued`, `ready at load`, `failed`."""
    standing = standing_of(turn, now)
    if standing is Standing.SETTLED:
        return turn.status.value
    if standing is Standing.QUEUED:
        return standing.value
    words = f"{standing} at {turn.stage}"
    if standing is Standing.PARKED:
        words += f" ({turn.parked})"
    return f"{turn.status}, {words}" if turn.status.is_final else words


def turn_json(turn: TurnRecord, now: datetime) -> JSONObject:
    """A turn as the commands print it: the fields of `TurnRecord`, flat, and where it stands. Instants are ISO."""
    fields = turn.model_dump(mode="json")
    session, owner = fields.pop("session"), fields.pop("owner")
    return {
        "turn_id": fields.pop("turn_id"),
        **session,
        **owner,
        "status": fields.pop("status"),
        "stage": fields.pop("stage"),
        "standing": standing_of(turn, now).value,
        **fields,
    }


def _limit(text: str) -> int:
    value = int(text) if text.isascii() and text.isdigit() else 0
    if not 1 <= value <= _MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to {_MOST}")
    return value
