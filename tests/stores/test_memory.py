"""What only a driver with a clock of the test's own can show without sleeping."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from turnchain.orchestrator_core.contracts import ProcessRecord, Stage
from turnchain.orchestrator_core.errors import InvalidInputError
from turnchain.stores import memory
from turnchain.stores.conformance.exam import Given, id_of, request_of, session_of

SECOND = timedelta(seconds=1)
LEASE = 20 * SECOND
INTERVAL = 5 * SECOND


class Time:
    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def moves(self, by: timedelta) -> None:
        self.now += by


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def given(time: Time) -> Given:
    return Given(memory.connect(time))


def test_a_lease_runs_out_at_its_instant(given: Given, time: Time) -> None:
    given.claimed("t1", lease=LEASE)

    time.moves(LEASE - SECOND)
    assert given.ledger.take_over_expired(3) == []
    time.moves(SECOND)
    assert len(given.ledger.take_over_expired(3)) == 1


def test_rewakes_double_up_to_the_longest_wait(given: Given, time: Time) -> None:
    """[DESIGN 6, Sweep]."""
    given.admitted("t1")
    woken: list[int] = []

    for second in range(1, 60):
        time.moves(SECOND)
        if given.ledger.rewake(2 * SECOND, 10 * SECOND):
            woken.append(second)

    assert woken == [2, 6, 14, 24, 34, 44, 54]


def test_a_claim_starts_the_rewakes_afresh(given: Given, time: Time) -> None:
    wake = given.admitted("t1")
    for _ in range(5):
        given.ledger.rewake(timedelta(0), timedelta(0))
    given.passed(given.granted(wake))

    time.moves(2 * SECOND)

    assert len(given.ledger.rewake(2 * SECOND, 600 * SECOND)) == 1


def test_a_parked_turn_waits_for_its_instant(given: Given, time: Time) -> None:
    claim = given.claimed("t1")
    given.ledger.park(claim, reason="x", wait=LEASE, stage=Stage.LOAD, work=claim.work)

    time.moves(LEASE - SECOND)
    assert given.ledger.rewake(timedelta(0), timedelta(0)) == []
    time.moves(SECOND)
    assert len(given.ledger.rewake(LEASE, LEASE)) == 1


def test_sweeps_follow_their_interval(given: Given, time: Time) -> None:
    swept: list[bool] = []
    for _ in range(11):
        swept.append(given.ledger.begin_sweep(INTERVAL, LEASE))
        time.moves(SECOND)

    assert [second for second, due in enumerate(swept) if due] == [0, 5, 10]


@pytest.mark.parametrize("step", [timedelta(hours=-1), timedelta(hours=1)])
def test_a_step_of_the_clock_grants_owners_a_whole_lease(
    given: Given, time: Time, step: timedelta
) -> None:
    """[DESIGN 6, Attempts] They renew before anybody takes over; the dead wait one lease."""
    given.ledger.begin_sweep(INTERVAL, LEASE)
    given.claimed("t1", lease=LEASE)

    time.moves(step)
    assert given.ledger.begin_sweep(INTERVAL, LEASE)
    assert given.ledger.take_over_expired(3) == []
    time.moves(LEASE)
    assert len(given.ledger.take_over_expired(3)) == 1


def test_a_step_backward_makes_nothing_wait_for_it(given: Given, time: Time) -> None:
    """[DESIGN 5, Where a turn stands] Ready stays ready, parked stays parked a lease at most."""
    given.ledger.begin_sweep(INTERVAL, LEASE)
    ready = given.admitted("ready", session="s1")
    claim = given.claimed("parked", session="s2")
    given.ledger.park(claim, reason="x", wait=SECOND, stage=Stage.LOAD, work=claim.work)

    time.moves(timedelta(hours=-1))
    given.ledger.begin_sweep(INTERVAL, LEASE)

    time.moves(LEASE)
    woken = [wake.turn_id for wake in given.ledger.rewake(INTERVAL, LEASE)]
    assert woken == [id_of("ready"), id_of("parked")]
    given.granted(ready)


def test_sweeps_slower_than_the_lease_still_take_over(given: Given, time: Time) -> None:
    """Grace after what looks like a gap must not come with every sweep."""
    given.claimed("t1", lease=3 * SECOND)

    for _ in range(3):
        given.ledger.begin_sweep(INTERVAL, 3 * SECOND)
        time.moves(INTERVAL)

    assert len(given.ledger.take_over_expired(3)) == 1


def test_a_silent_process_does_not_count(given: Given, time: Time) -> None:
    """[DESIGN 5, Admit]."""
    for n in range(4):
        given.accepted(f"t{n}", session=f"s{n}")
    given.ledger.beat(ProcessRecord(process_id="host:1", slots=3))

    time.moves(LEASE)

    assert len(given.ledger.admit()) == 1


def test_a_compaction_holds_its_session_until_its_lock_ends(time: Time) -> None:
    """[O 5.4] Joined into the checkpoint when it is read. [O 0.3 X3]."""
    stores = memory.connect(time)
    Given(stores).settled("t1")
    row = stores.tables.sessions[session_of("s")]
    row.lock_acquired_at, row.lock_expires_at = time.now, time.now + LEASE
    row.summarized_through = 3

    time.moves(5 * SECOND)

    assert stores.ledger.lock_wait(session_of("s")) == 15 * SECOND
    head = stores.checkpoints.load(session_of("s"))
    assert head is not None
    assert (head.lock_expires_at, head.summarized_through) == (row.lock_expires_at, 3)
    time.moves(15 * SECOND)
    assert stores.ledger.lock_wait(session_of("s")) is None


def test_what_was_request_scoped_goes_with_the_turn(time: Time) -> None:
    """[DESIGN 4]."""
    stores = memory.connect(time)
    Given(stores).settled("t1", context={"secret": 1}, history=({"role": "user", "content": "x"},))

    row = stores.tables.turns[id_of("t1")]

    assert (row.read_request().history, row.read_request().context, row.work) == ((), {}, None)
    assert row.read_request().input == {"say": "t1"}


def test_a_callers_connection_is_refused(given: Given) -> None:
    with pytest.raises(InvalidInputError, match="connection"):
        given.ledger.accept(request_of("t1"), request_hash="h", connection=object())
