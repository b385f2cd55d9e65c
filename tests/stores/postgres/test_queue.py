"""The queue behind busy sessions: looked at once, and let up whenever its first one leaves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from turnchain.orchestrator_core.contracts import Owner
from turnchain.stores.conformance.exam import Given, id_of, request_of
from turnchain.stores.postgres import PostgresStores
from turnchain.stores.postgres.statements import STATEMENTS


@pytest.fixture
def queue(stores: PostgresStores, given: Given) -> Given:
    """t0 runs; t1 waits for it, and t2 and t3 behind t1 have been looked at."""
    for turn in range(4):
        given.accepted(f"t{turn}")
    assert [wake.turn_id for wake in stores.ledger.admit(1)] == [id_of("t0")]
    assert stores.ledger.admit(9) == []
    return given


def test_only_the_first_is_looked_at_again(queue: Given, direct: psycopg.Connection) -> None:
    assert _behind(direct) == [id_of("t2"), id_of("t3")]


def test_admitting_the_first_lets_the_next_up(
    queue: Given, stores: PostgresStores, direct: psycopg.Connection
) -> None:
    _finish(direct, "t0")

    assert [wake.turn_id for wake in stores.ledger.admit(9)] == [id_of("t1")]
    assert _behind(direct) == [id_of("t3")]


def test_cancelling_the_first_lets_the_next_up(
    queue: Given, stores: PostgresStores, direct: psycopg.Connection
) -> None:
    assert stores.ledger.request_cancel(id_of("t1"), Owner()) == "cancelled"
    _finish(direct, "t0")

    assert [wake.turn_id for wake in stores.ledger.admit(9)] == [id_of("t2")]


def test_cancelling_a_later_one_changes_nothing_for_the_first(
    queue: Given, stores: PostgresStores, direct: psycopg.Connection
) -> None:
    assert stores.ledger.request_cancel(id_of("t2"), Owner()) == "cancelled"
    assert _behind(direct) == [id_of("t3")]
    _finish(direct, "t0")
    assert [wake.turn_id for wake in stores.ledger.admit(9)] == [id_of("t1")]
    _finish(direct, "t1")
    assert [wake.turn_id for wake in stores.ledger.admit(9)] == [id_of("t3")]


def test_a_deadline_of_the_first_lets_the_next_up(
    queue: Given, stores: PostgresStores, direct: psycopg.Connection
) -> None:
    direct.execute(
        "UPDATE turnchain_turns SET deadline_at = %s WHERE turn_id = %s",
        [datetime(2000, 1, 1, tzinfo=UTC), id_of("t1")],
    )
    assert stores.ledger.expire_deadlines() == [id_of("t1")]
    _finish(direct, "t0")

    assert [wake.turn_id for wake in stores.ledger.admit(9)] == [id_of("t2")]


def test_an_engines_admission_lets_the_next_up(
    stores: PostgresStores, given: Given, direct: psycopg.Connection
) -> None:
    given.accepted("other", "other")
    given.accepted("engine", runner="engine")
    given.accepted("t1")
    stores.ledger.admit(9)
    assert _behind(direct) == [id_of("t1")]

    assert stores.ledger.admit_turn(id_of("engine")) is not None
    _finish(direct, "engine")

    assert [wake.turn_id for wake in stores.ledger.admit(9)] == [id_of("t1")]


def test_a_turn_committed_late_keeps_its_earlier_place(
    stores: PostgresStores, given: Given, direct: psycopg.Connection, database_url: str
) -> None:
    """Its place is older than what admit has looked at already."""
    given.accepted("t0")
    with psycopg.connect(database_url) as caller:
        stores.ledger.accept(request_of("late"), request_hash="h", connection=caller)
        for turn in range(1, 4):
            given.accepted(f"t{turn}")
        stores.ledger.admit(1)
        stores.ledger.admit(9)
        caller.commit()

    _finish(direct, "t0")
    order: list[str] = []
    while wakes := stores.ledger.admit(9):
        order.append(*[wake.turn_id for wake in wakes])
        _finish_one(direct)

    assert order == [id_of(name) for name in ("late", "t1", "t2", "t3")]


def test_a_burst_larger_than_a_portion_fills_all_room(
    stores: PostgresStores, direct: psycopg.Connection
) -> None:
    """One session's thousand turns come first; the others' are found in the same call."""
    _insert(direct, "'s'", 1000)
    _insert(direct, "'s' || n", 10)

    assert len(stores.ledger.admit(11)) == 11
    assert stores.ledger.admit(99) == []


def test_the_cost_does_not_grow_with_the_queue_behind_busy_sessions(
    stores: PostgresStores, direct: psycopg.Connection
) -> None:
    """Pages touched by a call that finds one free slot, with 200 and with 20,000 turns waiting."""
    session = {"synchronous_commit": "off", "lock_timeout_ms": 5000, "read_only": False}
    direct.execute(STATEMENTS["set_session"], session)
    touched = []
    for each in (1, 100):
        _insert(direct, "'s' || n % 200", 200 * each)
        direct.execute("SELECT FROM turnchain_admit(8)")
        direct.execute("VACUUM ANALYZE turnchain_turns")
        for _ in range(120):
            _finish_one(direct)
            direct.execute("SELECT FROM turnchain_admit(8)")
        _finish_one(direct)
        touched.append(_pages(direct, "SELECT FROM turnchain_admit(8)"))

    assert touched[1] < 2 * touched[0] + 200


def _insert(direct: psycopg.Connection, session: str, count: int) -> None:
    direct.execute(
        "INSERT INTO turnchain_turns (turn_id, orchestrator_name, session_id, run_id, request_hash)"
        f" SELECT gen_random_uuid(), 'bot', {session}, 'r', 'h' FROM generate_series(1, {count}) AS n".encode()
    )


def _behind(direct: psycopg.Connection) -> list[str]:
    found = direct.execute(
        "SELECT turn_id::text FROM turnchain_turns WHERE behind AND status = 'queued' ORDER BY seq"
    )
    return [turn_id for (turn_id,) in found]


def _finish(direct: psycopg.Connection, turn: str) -> None:
    direct.execute(
        "UPDATE turnchain_turns SET status = 'failed', stage = 'done' WHERE turn_id = %s",
        [id_of(turn)],
    )


def _finish_one(direct: psycopg.Connection) -> None:
    direct.execute(
        "UPDATE turnchain_turns SET status = 'failed', stage = 'done' WHERE turn_id ="
        " (SELECT turn_id FROM turnchain_turns WHERE in_flight ORDER BY seq LIMIT 1)"
    )


def _pages(direct: psycopg.Connection, statement: str) -> int:
    plan = direct.execute(
        f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}".encode()
    ).fetchone()
    assert plan is not None
    return plan[0][0]["Plan"]["Shared Hit Blocks"] + plan[0][0]["Plan"]["Shared Read Blocks"]


def test_a_sweep_lets_up_what_stands_behind_nobody(
    queue: Given, stores: PostgresStores, direct: psycopg.Connection
) -> None:
    """A row deleted by hand must not hold up its session for ever. [DESIGN 1]"""
    _finish(direct, "t0")
    direct.execute("DELETE FROM turnchain_turns WHERE turn_id = %s", [id_of("t1")])
    assert stores.ledger.admit(9) == []

    stores.ledger.begin_sweep(timedelta(0), timedelta(seconds=20))

    assert [wake.turn_id for wake in stores.ledger.admit(9)] == [id_of("t2")]
