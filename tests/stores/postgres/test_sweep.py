"""Grace after a restart of the server or a step of its clock; told by rows that the test sets back."""

from __future__ import annotations

from datetime import timedelta

import psycopg
import pytest

from turnchain.orchestrator_core.contracts import ProcessRecord
from turnchain.stores.conformance.exam import EXPIRED, Given, id_of
from turnchain.stores.postgres import PostgresStores

INTERVAL = timedelta(seconds=5)
LEASE = timedelta(seconds=20)


@pytest.fixture
def swept(stores: PostgresStores) -> PostgresStores:
    assert stores.ledger.begin_sweep(INTERVAL, LEASE)
    return stores


@pytest.mark.parametrize(
    ("change", "grace"),
    [
        ("swept_at = swept_at - interval '6 seconds'", False),
        ("swept_at = swept_at - interval '24 seconds'", False),
        ("swept_at = swept_at - interval '26 seconds'", True),
        ("swept_at = swept_at + interval '1 hour'", True),
        (
            "swept_at = swept_at - interval '6 seconds',"
            " postmaster_started_at = postmaster_started_at - interval '1 hour'",
            True,
        ),
    ],
    ids=["on time", "late", "after a gap", "clock stepped backward", "server restarted"],
)
def test_owners_get_a_lease_of_grace(
    swept: PostgresStores, given: Given, direct: psycopg.Connection, change: str, grace: bool
) -> None:
    given.granted(given.admitted("t1"), lease=EXPIRED)
    direct.execute(f"UPDATE turnchain_sweeps SET {change}".encode())

    assert swept.ledger.begin_sweep(INTERVAL, LEASE)

    assert (swept.ledger.take_over_expired(3) == []) is grace
    assert not swept.ledger.begin_sweep(INTERVAL, LEASE)


def test_a_clock_that_stepped_backward_does_not_hold_anything_up(
    swept: PostgresStores, given: Given, direct: psycopg.Connection
) -> None:
    """What was written by the clock of before lies in the future."""
    given.admitted("ready", "s1")
    given.granted(given.admitted("owned", "s2"))
    direct.execute(
        "UPDATE turnchain_turns SET ready_at = ready_at + interval '1 hour',"
        " woken_at = woken_at + interval '1 hour',"
        " lease_expires_at = lease_expires_at + interval '1 hour'"
    )
    direct.execute("UPDATE turnchain_sweeps SET swept_at = swept_at + interval '1 hour'")

    assert swept.ledger.begin_sweep(INTERVAL, LEASE)

    assert [w.turn_id for w in swept.ledger.rewake(timedelta(0), LEASE)] == [id_of("ready")]
    left = direct.execute(
        "SELECT lease_expires_at <= clock_timestamp() + interval '20 seconds'"
        " FROM turnchain_turns WHERE lease_owner IS NOT NULL"
    ).fetchone()
    assert left == (True,)


def test_a_silent_process_has_no_slots(
    stores: PostgresStores, given: Given, direct: psycopg.Connection
) -> None:
    for process in ("live", "silent"):
        stores.ledger.beat(ProcessRecord(process_id=process, slots=3))
    direct.execute(
        "UPDATE turnchain_processes SET heartbeat_at = heartbeat_at - interval '11 seconds'"
        " WHERE process_id = 'silent'"
    )
    for turn in range(9):
        given.accepted(f"t{turn}", f"s{turn}")

    assert len(stores.ledger.admit()) == 3


def test_processes_that_serve_the_same_announce_it_without_writing_each_time(
    stores: PostgresStores, direct: psycopg.Connection
) -> None:
    for beat in range(3):
        signatures = {"shop": "aaaa", "bot": "bbbb"}
        stores.ledger.beat(ProcessRecord(process_id=f"p{beat}", slots=1, signatures=signatures))

    rows = direct.execute("SELECT name, xmax::text FROM turnchain_orchestrators ORDER BY 1")
    assert rows.fetchall() == [("bot", "0"), ("shop", "0")]
