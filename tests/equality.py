"""What turns leave in Postgres, for comparison: engine, staged and inline leave equal rows. [DESIGN 3]

Column by column, but for the closed list below: ids, instants, durations, owners and fences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, cast

import psycopg
from psycopg import sql

TABLES: Final = {
    "turnchain_turns": "turn_id = ANY (%(turns)s) ORDER BY seq",
    "turnchain_turn_requests": "turn_id = ANY (%(turns)s) ORDER BY turn_id",
    "turnchain_turn_work": "turn_id = ANY (%(turns)s) ORDER BY turn_id",
    "turnchain_outcomes": "turn_id = ANY (%(turns)s) ORDER BY turn_id",
    "turnchain_turn_events": "turn_id = ANY (%(turns)s) ORDER BY turn_id, seq",
    "turnchain_steps": "turn_id = ANY (%(turns)s) ORDER BY run_id, effect_key",
    "turnchain_checkpoints": "turn_id = ANY (%(turns)s) ORDER BY turn_id",
    "turnchain_snapshots": "run_id = ANY (%(turns)s::text[]) ORDER BY run_id",
    "turnchain_snapshot_iterations": "run_id = ANY (%(turns)s::text[]) ORDER BY run_id, iteration",
    "turnchain_sessions": (
        "EXISTS (SELECT FROM turnchain_turns AS t WHERE t.turn_id = ANY (%(turns)s)"
        " AND t.session_id = turnchain_sessions.session_id"
        " AND t.orchestrator_name = turnchain_sessions.orchestrator_name) ORDER BY session_id"
    ),
}

DIFFER: Final = frozenset({
    # ids, and who ran it
    "turn_id", "run_id", "root_run_id", "parent_run_id", "effect_key", "seq", "runner", "request_hash",
    "idempotency_key", "lease_owner", "fence",
    # instants and durations
    "accepted_at", "admitted_at", "settled_at", "saved_at", "created_at", "at", "intended_at", "finished_at",
    "ready_at", "woken_at", "lease_expires_at", "cancel_requested_at", "deadline_at", "wakes", "duration",
})  # fmt: skip
"""The closed list: columns, and keys inside JSON."""


def rows_of(url: str, turns: Sequence[str]) -> dict[str, list[Any]]:
    """What these turns left in each table, in the order given, without what may differ."""
    found: dict[str, list[Any]] = {}
    with psycopg.connect(url) as connection:
        for table, condition in TABLES.items():
            query = sql.SQL("SELECT to_jsonb({table}) FROM {table} WHERE {condition}").format(
                table=sql.Identifier(table), condition=sql.SQL(cast("Any", condition))
            )
            rows = [row[0] for row in connection.execute(query, {"turns": list(turns)})]
            rows.sort(key=lambda row: _place(row, turns))
            found[table] = [_same(row) for row in rows]
    return found


def _place(row: dict[str, Any], turns: Sequence[str]) -> tuple[int, int]:
    key = row.get("turn_id") or row.get("run_id")
    place = turns.index(key) if key in turns else len(turns)
    return place, int(row.get("seq") or row.get("iteration") or 0)


def _same(value: Any) -> Any:
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {key: _same(item) for key, item in items if key not in DIFFER}
    if isinstance(value, list):
        return [_same(item) for item in cast("list[Any]", value)]
    return value
