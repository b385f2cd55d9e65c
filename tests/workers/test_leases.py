"""The leases of one process, on a clock that the test moves."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from turnchain.orchestrator_core.contracts import Claim, Owner, Renewal, Stage
from turnchain.orchestrator_core.errors import (
    CancelRequested,
    DeadlinePassed,
    HandBackAsked,
    Interruption,
    LeaseLost,
    StoreUnavailableError,
)
from turnchain.stores import memory
from turnchain.stores.conformance.exam import Given, id_of
from turnchain.stores.memory import MemoryLedger
from turnchain.workers.draining import Draining
from turnchain.workers.leases import HeldLeases

LEASE = timedelta(seconds=20)
GRACE = timedelta(seconds=3)
SECOND = timedelta(seconds=1)
DISPATCH_LIMIT = timedelta(minutes=15)
STAGE_LIMIT = timedelta(seconds=60)


class Time:
    """One clock for the process and for the store; `lag` is what the store's is ahead."""

    def __init__(self) -> None:
        self.passed = timedelta(0)

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) + self.passed

    def elapsed(self) -> timedelta:
        return self.passed

    def move(self, duration: timedelta) -> None:
        self.passed += duration


class CountingLedger(MemoryLedger):
    """Memory, which says how it was asked to renew, and may be away."""

    def __init__(self, tables: memory.Tables) -> None:
        super().__init__(tables)
        self.renewals: list[int] = []
        self.is_away = False

    def renew(self, claims: Sequence[Claim], lease: timedelta) -> list[Renewal]:
        if self.is_away:
            raise StoreUnavailableError("away")
        self.renewals.append(len(claims))
        return super().renew(claims, lease)


class Desk:
    """A process with leases, and turns to hold."""

    def __init__(self) -> None:
        self.time = Time()
        stores = memory.connect(self.time.now)
        self.given = Given(stores)
        self.ledger = CountingLedger(stores.tables)
        self.draining = Draining(self.time, GRACE)
        self.leases = HeldLeases(
            self.ledger,
            self.time,
            self.draining,
            process_id="host:1",
            lease=LEASE,
            limit_of=lambda stage: DISPATCH_LIMIT if stage is Stage.DISPATCH else STAGE_LIMIT,
        )

    def claimed(self, turn: str = "t1", stage: Stage = Stage.DISPATCH) -> Claim:
        return self.given.claimed(turn, session=turn, stage=stage, lease=LEASE)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_owners_begin_with_the_process_and_are_never_used_twice(desk: Desk) -> None:
    owners = [desk.leases.new_owner() for _ in range(100)]

    assert desk.leases.process_id == "host:1"
    assert len(set(owners)) == 100
    assert all(owner.startswith("host:1/") for owner in owners)


def test_a_held_lease_lets_its_stage_go_on(desk: Desk) -> None:
    watch = desk.leases.begin(desk.claimed(), desk.time.elapsed())

    watch.check()
    watch.check_call()


def test_by_this_machines_clock_a_lease_runs_from_before_it_was_asked_for(desk: Desk) -> None:
    asked = desk.time.elapsed()
    desk.time.move(5 * SECOND)
    watch = desk.leases.begin(desk.claimed(), asked)

    desk.time.move(LEASE - 6 * SECOND)
    watch.check()
    desk.time.move(SECOND)
    for check in (watch.check, watch.check_call):
        with pytest.raises(LeaseLost):
            check()


def test_renewing_prolongs_what_runs(desk: Desk) -> None:
    claim = desk.claimed()
    watch = desk.leases.begin(claim, desk.time.elapsed())

    for _ in range(10):
        desk.time.move(LEASE - SECOND)
        desk.leases.renew()

    watch.check()
    record = desk.given.turn("t1")
    assert record.lease_expires_at == desk.time.now() + LEASE


def test_all_that_runs_is_renewed_in_one_statement(desk: Desk) -> None:
    for turn in ("t1", "t2", "t3"):
        desk.leases.begin(desk.claimed(turn), desk.time.elapsed())

    desk.leases.renew()

    assert desk.ledger.renewals == [3]


def test_with_nothing_to_renew_nobody_is_asked(desk: Desk) -> None:
    claim = desk.claimed()
    desk.leases.begin(claim, desk.time.elapsed())
    desk.leases.end(claim)
    desk.leases.end(claim)

    desk.leases.renew()

    assert desk.ledger.renewals == []


def test_a_lease_that_somebody_else_has_is_lost_and_not_asked_for_again(desk: Desk) -> None:
    claim = desk.claimed()
    watch = desk.leases.begin(claim, desk.time.elapsed())
    kept = desk.leases.begin(desk.claimed("t2"), desk.time.elapsed())
    desk.ledger.take_over(claim.wake, process_id="host:1", max_attempts=3)

    desk.leases.renew()
    desk.leases.renew()

    with pytest.raises(LeaseLost):
        watch.check()
    kept.check()
    assert desk.ledger.renewals == [2, 1]


def test_a_store_that_is_away_leaves_the_lease_to_run_out(desk: Desk) -> None:
    watch = desk.leases.begin(desk.claimed(), desk.time.elapsed())
    desk.ledger.is_away = True
    desk.time.move(LEASE - SECOND)
    with pytest.raises(StoreUnavailableError):
        desk.leases.renew()
    watch.check()

    desk.time.move(SECOND)
    with pytest.raises(LeaseLost):
        watch.check()


def test_a_lease_that_nobody_took_meanwhile_is_had_again(desk: Desk) -> None:
    """The machine was stopped for a while, and no sweep came by: the row is still this owner's."""
    watch = desk.leases.begin(desk.claimed(), desk.time.elapsed())
    desk.time.move(LEASE * 2)

    desk.leases.renew()

    watch.check()


def test_a_cancellation_is_heard_with_a_renewal(desk: Desk) -> None:
    watch = desk.leases.begin(desk.claimed(), desk.time.elapsed())
    desk.ledger.request_cancel(id_of("t1"), Owner())
    watch.check()

    desk.leases.renew()

    for check in (watch.check, watch.check_call):
        with pytest.raises(CancelRequested):
            check()


def test_a_deadline_is_heard_with_a_renewal(desk: Desk) -> None:
    claim = desk.given.claimed(
        "t1", stage=Stage.DISPATCH, lease=LEASE, deadline=desk.time.now() + SECOND
    )
    watch = desk.leases.begin(claim, desk.time.elapsed())
    desk.leases.renew()
    watch.check()

    desk.time.move(SECOND * 2)
    desk.leases.renew()

    with pytest.raises(DeadlinePassed):
        watch.check()


def test_a_process_that_goes_away_stops_at_a_boundary_and_leaves_calls_some_grace(
    desk: Desk,
) -> None:
    watch = desk.leases.begin(desk.claimed(), desk.time.elapsed())

    desk.draining.ask()

    with pytest.raises(HandBackAsked):
        watch.check()
    watch.check_call()
    desk.time.move(GRACE - timedelta(milliseconds=1))
    watch.check_call()
    desk.time.move(timedelta(milliseconds=1))
    with pytest.raises(HandBackAsked):
        watch.check_call()


def test_the_grace_runs_from_the_first_time_that_it_was_asked_for(desk: Desk) -> None:
    desk.draining.ask()
    desk.time.move(GRACE)
    desk.draining.ask()

    assert desk.draining.grace_is_over


@pytest.mark.parametrize(
    ("flags", "raised"),
    [
        ({"lost", "cancel_requested", "deadline_passed", "drains"}, LeaseLost),
        ({"cancel_requested", "deadline_passed", "drains"}, CancelRequested),
        ({"deadline_passed", "drains"}, DeadlinePassed),
        ({"drains"}, HandBackAsked),
    ],
)
def test_of_several_reasons_to_stop_the_gravest_is_told(
    desk: Desk, flags: set[str], raised: type[Interruption]
) -> None:
    desk.leases.begin(desk.claimed(), desk.time.elapsed())
    (held,) = desk.leases._all()
    for flag in flags - {"drains"}:
        setattr(held, flag, True)
    if "drains" in flags:
        desk.draining.ask()

    with pytest.raises(raised):
        held.check()


@pytest.mark.parametrize(
    ("stage", "limit"), [(Stage.DISPATCH, DISPATCH_LIMIT), (Stage.PERSIST, STAGE_LIMIT)]
)
def test_a_stage_past_its_limit_is_renewed_no_more_and_logged_once(
    desk: Desk, caplog: pytest.LogCaptureFixture, stage: Stage, limit: timedelta
) -> None:
    claim = desk.claimed(stage=stage)
    watch = desk.leases.begin(claim, desk.time.elapsed())
    while desk.time.elapsed() + LEASE / 2 < limit:
        desk.time.move(LEASE / 2)
        desk.leases.renew()
    watch.check()
    before = len(desk.ledger.renewals)

    with caplog.at_level(logging.ERROR, "turnchain.workers"):
        for _ in range(5):
            desk.time.move(LEASE)
            desk.leases.renew()

    assert len(desk.ledger.renewals) == before
    with pytest.raises(LeaseLost):
        watch.check()
    (record,) = caplog.records
    assert record.getMessage().startswith("slot leaked")
    assert vars(record)["turn_id"] == id_of("t1")
    assert vars(record)["stage"] == stage.value
    assert vars(record)["fence"] == claim.turn.fence


def test_what_is_abandoned_is_named_until_it_has_been_handed_back(desk: Desk) -> None:
    """A ledger that does not answer once must not cost the turn a lease and an attempt. [DESIGN 6, SIGTERM]"""
    claims = [desk.claimed("t1"), desk.claimed("t2")]
    for claim in claims:
        desk.leases.begin(claim, desk.time.elapsed())

    assert desk.leases.abandon() == claims
    desk.leases.end(claims[0])

    assert desk.leases.abandon() == claims[1:]


def test_what_is_abandoned_is_lost_from_then_on(desk: Desk) -> None:
    claims = [desk.claimed("t1"), desk.claimed("t2")]
    watches = [desk.leases.begin(claim, desk.time.elapsed()) for claim in claims]

    assert desk.leases.abandon() == claims

    for watch in watches:
        with pytest.raises(LeaseLost):
            watch.check()
    desk.leases.renew()
    assert desk.ledger.renewals == []
