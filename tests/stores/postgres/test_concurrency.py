"""What several processes do at once, with threads that each have a connection."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from turnchain.orchestrator_core.contracts import Claim, Owner, Refusal, Stage, Wake
from turnchain.orchestrator_core.errors import LeaseLost, StoreUnavailableError, TurnConflictError
from turnchain.stores.conformance.exam import EXPIRED, LEASE, NOW, Given, id_of, request_of
from turnchain.stores.postgres import PostgresLedger, PostgresStores, connect


def at_once(*calls: Callable[[], Any]) -> list[Any]:
    """Results of the calls, begun together; an exception is a result."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], Any]) -> Any:
        barrier.wait()
        try:
            return call()
        except BaseException as error:
            return error

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(run, calls))


def test_of_many_claims_of_one_wake_one_wins(stores: PostgresStores, given: Given) -> None:
    for turn in range(10):
        wake = given.admitted(f"t{turn}", f"s{turn}")

        results = at_once(
            *(lambda n=n, w=wake: stores.ledger.claim(w, f"host:{n}/1", LEASE) for n in range(8))
        )

        assert sum(isinstance(result, Claim) for result in results) == 1
        refusals = [result for result in results if isinstance(result, Refusal)]
        assert {refusal.reason for refusal in refusals} == {"owned"}


def test_admits_never_exceed_the_capacity_nor_a_session(
    stores: PostgresStores, given: Given, direct: psycopg.Connection
) -> None:
    for turn in range(60):
        given.accepted(f"t{turn}", f"s{turn % 12}")

    for _ in range(20):
        results = at_once(*(lambda: stores.ledger.admit(5) for _ in range(8)))

        assert not [result for result in results if isinstance(result, BaseException)]
        row = direct.execute(
            "SELECT count(*), count(DISTINCT session_id) FROM turnchain_turns WHERE in_flight"
        ).fetchone()
        assert row == (5, 5)
        direct.execute(
            "UPDATE turnchain_turns SET status = 'failed', stage = 'done' WHERE turn_id IN"
            " (SELECT turn_id FROM turnchain_turns WHERE in_flight ORDER BY seq LIMIT 2)"
        )


def test_every_turn_is_admitted_once(stores: PostgresStores, given: Given) -> None:
    for turn in range(40):
        given.accepted(f"t{turn}", f"s{turn}")

    results = at_once(*(lambda: stores.ledger.admit(40) for _ in range(8)))

    wakes = [wake for result in results for wake in result]
    assert len({wake.turn_id for wake in wakes}) == len(wakes) == 40


def test_the_same_turn_accepted_at_once_is_created_once(stores: PostgresStores) -> None:
    request = request_of("t1", idempotency_key="key")

    results = at_once(*(lambda: stores.ledger.accept(request, request_hash="h") for _ in range(8)))

    assert sorted(result.created for result in results) == [False] * 7 + [True]


def test_one_key_for_two_requests_at_once_is_a_conflict(stores: PostgresStores) -> None:
    results = at_once(
        *(
            lambda n=n: stores.ledger.accept(
                request_of(f"t{n}", idempotency_key="key"), request_hash=f"h{n}"
            )
            for n in range(8)
        )
    )

    assert sum(isinstance(result, TurnConflictError) for result in results) == 7


def _unit(ledger: PostgresLedger, claim: Claim) -> None:
    with ledger.unit(claim, durable=True) as unit:
        unit.hand_over(Stage.PERSIST)


WRITES: dict[str, Callable[[PostgresLedger, Claim], object]] = {
    "unit": _unit,
    "begin step": lambda ledger, claim: ledger.begin_step(claim, "run", "key", "charge"),
    "finish step": lambda ledger, claim: ledger.finish_step(claim, "run", "key", 1),
}


@pytest.mark.parametrize("write", WRITES)
def test_a_takeover_under_way_refuses_the_stale_write(
    stores: PostgresStores, given: Given, direct: psycopg.Connection, write: str
) -> None:
    """The write's guard waits for the takeover's commit, and then sees it."""
    claim = given.claimed("t1", stage=Stage.DISPATCH)
    direct.execute("BEGIN")
    direct.execute("UPDATE turnchain_turns SET fence = fence + 1, lease_owner = NULL")

    def commit() -> None:
        _wait_for_a_waiter(direct)
        direct.execute("COMMIT")

    result, _ = at_once(lambda: WRITES[write](stores.ledger, claim), commit)

    assert isinstance(result, LeaseLost)
    assert given.turn("t1").stage is Stage.DISPATCH
    assert direct.execute("SELECT FROM turnchain_steps").fetchall() == []


def test_branches_write_their_intents_side_by_side(
    stores: PostgresStores, given: Given, direct: psycopg.Connection
) -> None:
    """A branch that is just committing its intent does not hold up the others."""
    claim = given.claimed("t1", stage=Stage.DISPATCH)
    direct.execute("BEGIN")
    direct.execute("SELECT FROM turnchain_turns FOR SHARE")

    results = at_once(
        *(
            lambda n=n: stores.ledger.begin_step(claim, "run", f"branch {n}", "charge")
            for n in range(4)
        )
    )
    direct.execute("ROLLBACK")

    assert [result.created for result in results] == [True] * 4


def test_an_expiry_that_is_renewed_meanwhile_is_none(stores: PostgresStores, given: Given) -> None:
    """Renewing and taking over at once: one of the two happens, never both."""
    for turn in range(20):
        wake = given.admitted(f"t{turn}", f"s{turn}")
        claim = given.granted(wake, lease=EXPIRED)

        results = at_once(
            lambda c=claim: stores.ledger.renew([c], LEASE),
            lambda: stores.ledger.take_over_expired(3),
        )

        assert results[0][0].renewed is not bool(results[1])


def test_an_uncommitted_accept_stands_in_nobodys_way(
    stores: PostgresStores, given: Given, database_url: str
) -> None:
    """A view that enqueues and then stays in its transaction."""
    with psycopg.connect(database_url) as caller:
        stores.ledger.accept(request_of("open", "s1"), request_hash="h", connection=caller)

        given.accepted("t2", "s1")
        given.accepted("t3", "s2")
        wakes = stores.ledger.admit(10)
        assert {wake.turn_id for wake in wakes} == {id_of("t2"), id_of("t3")}
        for wake in wakes:
            given.passed(given.granted(wake))
        assert stores.ledger.request_cancel(id_of("t3"), Owner()) == "requested"
        assert stores.ledger.begin_sweep(LEASE, LEASE)
        assert stores.ledger.rewake(NOW, NOW)
        caller.commit()

    assert given.turn("open").status == "queued"


def test_a_turn_that_somebody_holds_open_is_a_typed_error(database_url: str) -> None:
    """Only its own duplicate waits for an uncommitted accept, and not for ever."""
    stores = connect(database_url, lock_timeout=timedelta(milliseconds=50))
    with psycopg.connect(database_url) as caller, closing(stores):
        stores.ledger.accept(request_of("t1"), request_hash="h", connection=caller)

        with pytest.raises(StoreUnavailableError, match="another transaction holds"):
            stores.ledger.accept(request_of("t1"), request_hash="h")

        caller.rollback()


def test_a_duplicate_waits_for_the_first_and_then_knows(
    stores: PostgresStores, database_url: str, direct: psycopg.Connection
) -> None:
    with psycopg.connect(database_url) as caller:
        request = request_of("t1")
        stores.ledger.accept(request, request_hash="h", connection=caller)

        def commit() -> None:
            _wait_for_a_waiter(direct)
            caller.commit()

        first, _ = at_once(lambda: stores.ledger.accept(request, request_hash="h"), commit)

    assert first.created is False


def test_a_locked_turn_does_not_stop_the_sweep(
    stores: PostgresStores, given: Given, direct: psycopg.Connection
) -> None:
    for name in ("stuck", "free"):
        given.granted(given.admitted(name, name), lease=EXPIRED)
    direct.execute("BEGIN")
    direct.execute("SELECT FROM turnchain_turns WHERE turn_id = %s FOR UPDATE", [id_of("stuck")])

    wakes = stores.ledger.take_over_expired(3)
    direct.execute("ROLLBACK")

    assert [wake.turn_id for wake in wakes] == [id_of("free")]


def test_one_of_many_sweeps_begins(stores: PostgresStores) -> None:
    results = at_once(*(lambda: stores.ledger.begin_sweep(LEASE, LEASE) for _ in range(8)))

    assert sorted(results) == [False] * 7 + [True]


def test_a_burst_moves_through_all_stages_by_many_hands(
    stores: PostgresStores, given: Given, direct: psycopg.Connection
) -> None:
    """Everybody grabs every wake: each stage of each turn still runs once, in order."""
    for turn in range(30):
        given.accepted(f"t{turn}", f"s{turn % 6}")
    ran: list[tuple[str, Stage]] = []

    def work(name: int) -> None:
        serial = 0
        wakes: list[Wake] = []
        while direct_done() < 30:
            wakes += stores.ledger.admit(4) + stores.ledger.rewake(NOW, NOW)
            while wakes:
                serial += 1
                wake = wakes.pop()
                claim = stores.ledger.claim(wake, f"host:{name}/{serial}", LEASE)
                if isinstance(claim, Refusal):
                    continue
                ran.append((wake.turn_id, wake.stage))
                if wake.stage is Stage.PERSIST:
                    wakes.append(given.persisted(claim))
                else:
                    wakes.append(given.passed(claim))
                if wake.stage is Stage.COMPACT:
                    wakes.pop()

    lock = threading.Lock()

    def direct_done() -> int:
        with lock:
            row = direct.execute(
                "SELECT count(*) FROM turnchain_turns WHERE stage = 'done'"
            ).fetchone()
            return row[0] if row else 0

    results = at_once(*(lambda n=n: work(n) for n in range(4)))

    assert results == [None] * 4
    assert len(ran) == len(set(ran)) == 30 * 7
    heads = direct.execute("SELECT session_id, head_turn_index FROM turnchain_sessions").fetchall()
    assert sorted(heads) == [(f"s{n}", 4) for n in range(6)]
    indices = direct.execute(
        "SELECT session_id, array_agg(turn_index ORDER BY turn_index) FROM turnchain_checkpoints"
        " GROUP BY 1 ORDER BY 1"
    ).fetchall()
    assert indices == [(f"s{n}", [0, 1, 2, 3, 4]) for n in range(6)]


def _wait_for_a_waiter(direct: psycopg.Connection) -> None:
    """Return once a session of this database waits for a lock."""
    for _ in range(100_000):
        found = direct.execute(
            "SELECT FROM pg_stat_activity WHERE datname = current_database()"
            " AND wait_event_type = 'Lock'"
        ).fetchone()
        if found is not None:
            return
    pytest.fail("nobody waited")
