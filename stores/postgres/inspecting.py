"""What an operator reads."""

from __future__ import annotations

from typing import Any, Final

from psycopg.rows import DictRow

from turnchain.orchestrator_core.contracts import (
    COUNT_LIMIT,
    Owner,
    Position,
    ProcessRecord,
    SessionFilter,
    SessionKey,
    SessionPage,
    SessionSummary,
    Surroundings,
    TurnFacts,
    TurnFilter,
    TurnId,
    TurnPage,
    TurnStatus,
    to_json,
)
from turnchain.orchestrator_core.ports import ENGINE_SILENCE
from turnchain.stores.postgres import rows
from turnchain.stores.postgres.base import Part
from turnchain.stores.postgres.connection import Step
from turnchain.stores.postgres.errors import is_passing
from turnchain.stores.retrying import repeating

_LAST_SEQ: Final = 2**63 - 1
_LIVE: Final = (TurnStatus.RUNNING, TurnStatus.PAUSED)


class PostgresInspection(Part):
    """`Inspection` of a Postgres ledger. Nothing is written or locked, so that a replica answers as well."""

    def turns(self, wanted: TurnFilter, limit: int) -> TurnPage:
        """As `Inspection.turns`."""
        params: dict[str, Any] = {
            "names": self._names(wanted.orchestrator_name),
            "session_id": wanted.session_id,
            "status": wanted.status,
            "before": _LAST_SEQ if wanted.before is None else wanted.before,
            "limit": limit,
        }
        if wanted.stuck_on is not None:
            params |= {"stage_queues": to_json(dict(wanted.stuck_on)), "silence": ENGINE_SILENCE}
        found, now = self._ask((_statement(wanted), params), ("now", {}))
        return TurnPage(now[0]["now"], tuple(map(rows.turn, found)))

    def sessions(self, wanted: SessionFilter, limit: int) -> SessionPage:
        """As `Inspection.sessions`."""
        params: dict[str, Any] = {
            "names": self._names(wanted.orchestrator_name),
            "session_id": wanted.session_id,
            "before": wanted.before,
            "limit": limit,
            "count_limit": COUNT_LIMIT,
        }
        found, now = self._ask(("list_sessions", params), ("now", {}))
        return SessionPage(now[0]["now"], tuple(map(_summary, found)))

    def facts(self, turn_id: TurnId) -> TurnFacts | None:
        """As `Inspection.facts`."""
        if not rows.is_turn_id(turn_id):
            return None
        (found,) = self._ask(("facts", {"turn_id": turn_id, "count_limit": COUNT_LIMIT}))
        if not found:
            return None
        own, *before = found
        return TurnFacts(
            position=_position(own),
            before=_position(before[0]) if before else None,
            queued_before=own["queued_before"],
            preferred=own["preferred"],
            around=Surroundings(
                now=own["now"],
                swept_at=own["swept_at"],
                processes=tuple(map(ProcessRecord.model_validate, own["processes"])),
                last_heartbeat_at=own["last_heartbeat_at"],
                in_flight=own["flying"],
            ),
        )

    def _names(self, name: str | None) -> list[str]:
        if name is not None:
            return [name]
        (found,) = self._ask(("list_names", {}))
        return [row["name"] for row in found]

    def _ask(self, *steps: Step) -> list[list[DictRow]]:
        """The rows of each statement, kept to the indexes that are there for it."""
        all_steps: list[Step] = [("keep_to_indexes", {}), *steps]
        return repeating(is_passing)(self._connections.run_all, all_steps, durable=False)[1:]


def _statement(wanted: TurnFilter) -> str:
    """The statement that walks the index with the fewest turns that are not wanted."""
    if wanted.stuck_on is not None:
        return "list_stuck"
    if wanted.session_id is not None or wanted.status in (None, TurnStatus.AWAITING_INPUT):
        return "list_turns"
    if wanted.status is TurnStatus.QUEUED:
        return "list_queued"
    return "list_live" if wanted.status in _LIVE else "list_unanswered"


def _position(row: rows.Row) -> Position:
    names = ("wakes", "woken_at", "last_event", "last_event_at", "iterations", "open_steps")
    return Position(
        turn=rows.turn(row), error_code=row["error_code"], **{name: row[name] for name in names}
    )


def _summary(row: rows.Row) -> SessionSummary:
    return SessionSummary(
        session=SessionKey(
            orchestrator_name=row["orchestrator_name"], session_id=row["session_id"]
        ),
        owner=Owner(tenant=row["tenant"], user_id=row["user_id"]),
        created_at=row["created_at"],
        head_turn_index=row["head_turn_index"],
        queued=row["queued"],
        last_turn=rows.turn(row["last_turn"]) if row["last_turn"] else None,
    )
