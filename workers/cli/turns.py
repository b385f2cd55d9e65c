"""`turnchain turns`: which turns there are, the last accepted first."""

from __future__ import annotations

import argparse
from datetime import datetime
from typing import Final

from turnchain.orchestrator_core.contracts import TurnFilter, TurnRecord, TurnStatus
from turnchain.orchestrator_core.situation import away
from turnchain.workers.cli import output, reading

SUMMARY: Final = "list turns, the last accepted first"
_COLUMNS: Final = ("TURN", "STANDS", "ACCEPTED", "ORCHESTRATOR", "SESSION")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--status", type=_status, metavar="STATUS", help=f"one of {', '.join(TurnStatus)}"
    )
    parser.add_argument(
        "--stuck",
        action="store_true",
        help="only turns that nobody will go on with: `turnchain why TURN` says what is missing",
    )
    reading.add_page(parser, _seq, "SEQ")


def run(options: argparse.Namespace) -> int:
    """Print them; always 0."""
    with reading.opened() as reader:
        wanted = TurnFilter(
            orchestrator_name=options.orchestrator,
            session_id=options.session,
            status=options.status,
            before=options.before,
            stuck_on=reader.rules.queues if options.stuck else None,
        )
        page = reader.inspection.turns(wanted, options.limit + 1)
    shown = page.turns[: options.limit]
    if options.json:
        output.write_json(reading.turn_json(turn, page.now) for turn in shown)
    elif shown:
        rows = [_row(turn, page.now) for turn in shown]
        output.write_table(_COLUMNS, rows, ("ORCHESTRATOR", "SESSION"))
    else:
        reading.say("No turn is like that.")
    if len(page.turns) > options.limit:
        reading.say(f"There are more: add --before {shown[-1].seq}.")
    return 0


def _row(turn: TurnRecord, now: datetime) -> list[str]:
    return [
        turn.turn_id,
        reading.stands(turn, now),
        away(turn.accepted_at, now),
        turn.session.orchestrator_name,
        turn.session.session_id,
    ]


def _status(text: str) -> TurnStatus:
    try:
        return TurnStatus(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no status: give one of {', '.join(TurnStatus)}"
        ) from None


def _seq(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise argparse.ArgumentTypeError(f"{text!r} is no seq: take it from the page before")
    return int(text)
