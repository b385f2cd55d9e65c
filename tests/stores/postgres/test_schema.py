from __future__ import annotations

import psycopg
import pytest
from psycopg.errors import UniqueViolation

from turnchain.orchestrator_core.contracts import Stage, TurnStatus
from turnchain.stores.conformance.exam import Given, id_of
from turnchain.stores.postgres import schema


def test_applying_it_twice_changes_nothing(direct: psycopg.Connection) -> None:
    before = _catalogue(direct)

    direct.execute(schema().encode())

    assert _catalogue(direct) == before


def test_everything_has_our_prefix(direct: psycopg.Connection) -> None:
    assert all(name.startswith("turnchain_") for name in _catalogue(direct))


def test_it_knows_every_status_and_stage(given: Given, direct: psycopg.Connection) -> None:
    given.accepted("t1")
    for status in TurnStatus:
        direct.execute("UPDATE turnchain_turns SET status = %s", [status.value])
    for stage in Stage:
        direct.execute("UPDATE turnchain_turns SET stage = %s", [stage.value])


def test_a_session_cannot_have_two_running_turns(given: Given, direct: psycopg.Connection) -> None:
    given.admitted("t1")
    given.accepted("t2")

    with pytest.raises(UniqueViolation):
        direct.execute("UPDATE turnchain_turns SET status = 'paused' WHERE status = 'queued'")


def test_a_turn_cannot_have_two_final_events(given: Given, direct: psycopg.Connection) -> None:
    given.settled("t1")

    with pytest.raises(UniqueViolation):
        direct.execute(
            "INSERT INTO turnchain_turn_events VALUES (%s, 99, 'orchestrator.turn.failed', '{}')",
            [id_of("t1")],
        )


def test_moving_a_turn_writes_no_index(given: Given, direct: psycopg.Connection) -> None:
    """Claims, renewals and hand-overs are HOT updates: no index holds what they change."""
    claim = given.claimed("t1")
    direct.execute("BEGIN")
    moves = (
        "lease_owner = 'x', lease_expires_at = clock_timestamp(), ready_at = NULL",
        "stage = 'window', lease_owner = NULL, ready_at = clock_timestamp(), fence = fence + 1",
        "parked = 'compaction', attempts = 1, event_seq = 4, wakes = 1, woken_at = ready_at",
        "cancel_requested_at = clock_timestamp(), turn_index = 3",
    )
    for move in moves:
        direct.execute(f"UPDATE turnchain_turns SET {move}".encode())
    row = direct.execute(
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables"
        " WHERE relname = 'turnchain_turns'"
    ).fetchone()
    direct.execute("ROLLBACK")

    assert claim.turn.stage is Stage.LOAD
    assert row == (len(moves), len(moves))


def test_a_done_turn_keeps_nothing_request_scoped(given: Given, direct: psycopg.Connection) -> None:
    message = {"role": "user", "content": "my secret"}
    claim = given.claimed(
        "t1", stage=Stage.PERSIST, history=[message], context={"card": "my secret"}
    )
    given.passed(given.granted(given.persisted(claim)))

    texts = [
        str(row)
        for table in ("turnchain_turn_requests", "turnchain_turn_work", "turnchain_turns")
        for row in direct.execute(f"SELECT * FROM {table}".encode()).fetchall()
    ]

    assert texts
    assert not [text for text in texts if "secret" in text]


def _catalogue(connection: psycopg.Connection) -> list[str]:
    found = connection.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        " UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace"
        " ORDER BY 1"
    )
    return [name for (name,) in found]
