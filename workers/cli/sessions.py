"""`turnchain sessions`: which sessions have begun, the last first."""

from __future__ import annotations

import argparse
from datetime import datetime
from typing import Final

from turnchain.orchestrator_core.contracts import JSONObject, SessionFilter, SessionSummary
from turnchain.orchestrator_core.situation import away
from turnchain.workers.cli import output, reading

SUMMARY: Final = "list sessions, the last begun first, each with its last turn"
_COLUMNS: Final = (
    "LAST TURN", "STANDS", "ANSWERED", "QUEUED", "BEGUN", "ORCHESTRATOR", "SESSION",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    reading.add_page(parser, _instant, "INSTANT")


def run(options: argparse.Namespace) -> int:
    """Print them; always 0. A session whose first turn still waits for its `load` has not begun."""
    wanted = SessionFilter(
        orchestrator_name=options.orchestrator,
        session_id=options.session,
        before=options.before,
    )
    with reading.opened() as reader:
        page = reader.inspection.sessions(wanted, options.limit)
    if options.json:
        output.write_json(_json(session, page.now) for session in page.sessions)
    elif page.sessions:
        rows = [_row(session, page.now) for session in page.sessions]
        output.write_table(_COLUMNS, rows, ("ORCHESTRATOR", "SESSION"))
    else:
        reading.say("No session is like that.")
    if len(page.sessions) >= options.limit:
        reading.say(f"There may be more: add --before {output.iso(page.sessions[-1].created_at)}.")
    return 0


def _row(session: SessionSummary, now: datetime) -> list[str]:
    last = session.last_turn
    return [
        last.turn_id if last else "-",
        reading.stands(last, now) if last else "-",
        str(session.head_turn_index + 1),
        str(session.queued),
        away(session.created_at, now),
        session.session.orchestrator_name,
        session.session.session_id,
    ]


def _json(session: SessionSummary, now: datetime) -> JSONObject:
    last = session.last_turn
    return {
        "session_id": session.session.session_id,
        "orchestrator_name": session.session.orchestrator_name,
        "tenant": session.owner.tenant,
        "user_id": session.owner.user_id,
        "created_at": output.iso(session.created_at),
        "head_turn_index": session.head_turn_index,
        "queued": session.queued,
        "last_turn": reading.turn_json(last, now) if last else None,
    }


def _instant(text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        instant = None
    if instant is None or instant.tzinfo is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no instant with a zone, such as 2026-11-30T22:06:38Z"
        )
    return instant
