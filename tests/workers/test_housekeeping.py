"""The thread that keeps a process's turns alive: it goes on whatever happens to a round."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from datetime import timedelta
from time import monotonic
from typing import Any

import pytest

import turnchain
from turnchain import Orchestrator
from turnchain.orchestrator_core.contracts import ProcessRecord, Stage, Wake
from turnchain.orchestrator_core.errors import LeaseLost, StoreUnavailableError
from turnchain.orchestrator_core.sweep import SweepPolicy
from turnchain.stores import memory
from turnchain.stores.conformance.exam import Given, id_of
from turnchain.stores.memory import MemoryLedger
from turnchain.tasks.environment import TaskEnvironment
from turnchain.workers.clock import SystemClock
from turnchain.workers.draining import Draining
from turnchain.workers.housekeeping import Housekeeping
from turnchain.workers.leases import HeldLeases

ROUND = timedelta(milliseconds=20)
LEASE = timedelta(seconds=20)
PROCESS = ProcessRecord(process_id="host:1", slots=4, signatures={"bot": "s1"})
SECRET = "what a person wrote"


class Outbox:
    """Takes wakes in place of a broker."""

    def __init__(self) -> None:
        self.wakes: list[Wake] = []

    def publish(self, wakes: Sequence[Wake]) -> None:
        self.wakes += wakes


class FlakyLedger(MemoryLedger):
    """Memory, whose verbs a test lets fail."""

    def __init__(self, tables: memory.Tables) -> None:
        super().__init__(tables)
        self.failing: dict[str, Exception] = {}
        self.calls: list[str] = []

    def _called(self, verb: str) -> None:
        self.calls.append(verb)
        if verb in self.failing:
            raise self.failing[verb]

    def beat(self, process: ProcessRecord) -> None:
        self._called("beat")
        super().beat(process)

    def renew(self, claims: Any, lease: timedelta) -> Any:
        self._called("renew")
        return super().renew(claims, lease)

    def begin_sweep(self, interval: timedelta, lease: timedelta) -> bool:
        self._called("begin_sweep")
        return super().begin_sweep(interval, lease)

    def admit(self, max_in_flight: int | None = None) -> list[Wake]:
        self._called("admit")
        return super().admit(max_in_flight)

    def forget(self, process_id: str) -> None:
        self._called("forget")
        super().forget(process_id)


class Desk:
    """A process with its housekeeping, not started yet."""

    def __init__(self, grace: timedelta = timedelta(milliseconds=100)) -> None:
        stores = memory.connect()
        bot = Orchestrator(name="bot", intents={"a": lambda _: None}, route=lambda _: "a")
        self.ledger = FlakyLedger(stores.tables)
        self.given = Given(stores)
        self.outbox = Outbox()
        clock = SystemClock()
        self.draining = Draining(clock, grace)
        self.leases = HeldLeases(
            self.ledger,
            clock,
            self.draining,
            process_id=PROCESS.process_id,
            lease=LEASE,
            limit_of=lambda _: timedelta(minutes=15),
        )
        core = replace(turnchain.in_process(bot)._env, ledger=self.ledger, leases=self.leases)
        env = TaskEnvironment(core=core, sweep=SweepPolicy(interval=timedelta(0)))
        self.housekeeping = Housekeeping(
            env, self.leases, self.outbox, self.draining, PROCESS, ROUND
        )

    def rounds(self, count: int = 3) -> None:
        """Wait until so many more rounds have come to their sweep, or to their heartbeat once draining."""
        verb = "beat" if self.draining.asked else "begin_sweep"
        end = self.ledger.calls.count(verb) + count
        until(lambda: self.ledger.calls.count(verb) >= end)


def until(holds: Callable[[], object]) -> None:
    deadline = monotonic() + 5
    while not holds():
        assert monotonic() < deadline
        threading.Event().wait(0.005)


@pytest.fixture
def desk() -> Generator[Desk]:
    desk = Desk()
    yield desk
    desk.draining.ask()
    if desk.housekeeping._thread.is_alive():
        desk.housekeeping.stop()
        desk.housekeeping._thread.join(5)


def test_the_process_is_announced_before_anything_else_and_admits_for_its_slots(desk: Desk) -> None:
    for turn in ("t1", "t2", "t3"):
        desk.given.accepted(turn, session=turn)

    desk.housekeeping.start()
    desk.rounds(1)

    assert desk.ledger.calls[:2] == ["beat", "admit"]
    assert {wake.turn_id for wake in desk.outbox.wakes} == {id_of("t1"), id_of("t2"), id_of("t3")}


def test_every_round_renews_beats_and_sweeps(desk: Desk) -> None:
    claim = desk.given.claimed("t1", stage=Stage.DISPATCH, lease=LEASE)
    desk.leases.begin(claim, SystemClock().elapsed())
    before = desk.given.turn("t1").lease_expires_at
    desk.housekeeping.start()

    desk.rounds(3)

    renewed = desk.given.turn("t1").lease_expires_at
    assert before is not None
    assert renewed is not None
    assert renewed > before
    first = desk.ledger.calls.index("renew")
    assert desk.ledger.calls[first : first + 3] == ["renew", "beat", "begin_sweep"]


@pytest.mark.parametrize("verb", ["beat", "renew", "begin_sweep", "admit"])
@pytest.mark.parametrize("error", [StoreUnavailableError(SECRET), ValueError(SECRET)], ids=repr)
def test_a_round_that_fails_does_not_end_the_others(
    desk: Desk, caplog: pytest.LogCaptureFixture, verb: str, error: Exception
) -> None:
    desk.leases.begin(desk.given.claimed("t1", lease=LEASE), SystemClock().elapsed())
    desk.ledger.failing[verb] = error

    with caplog.at_level(logging.WARNING, "turnchain.workers"):
        desk.housekeeping.start()
        desk.rounds(3)
        del desk.ledger.failing[verb]
        desk.rounds(3)

    assert desk.ledger.calls.count("renew") >= 3
    assert {each.name for each in caplog.records} == {"turnchain.workers"}
    told = {each.getMessage() for each in caplog.records}
    assert all(message.startswith("housekeeping ") for message in told)
    assert SECRET not in str([vars(each) for each in caplog.records if not each.exc_info])
    assert vars(caplog.records[0])["error"] == type(error).__name__


def test_a_process_that_drains_takes_no_more_and_says_so(desk: Desk) -> None:
    desk.housekeeping.start()
    desk.rounds(1)
    desk.draining.ask()
    desk.rounds(2)
    desk.outbox.wakes.clear()
    swept = desk.ledger.calls.count("begin_sweep")

    desk.rounds(3)

    assert desk.ledger.calls.count("begin_sweep") == swept
    assert desk.outbox.wakes == []
    assert desk.ledger.tables.processes["host:1"].draining is True


def test_what_does_not_stop_within_the_grace_is_handed_back_and_published(desk: Desk) -> None:
    claim = desk.given.claimed("t1", stage=Stage.DISPATCH, lease=LEASE)
    watch = desk.leases.begin(claim, SystemClock().elapsed())
    desk.housekeeping.start()
    desk.rounds(1)
    assert desk.outbox.wakes == []

    desk.draining.ask()
    until(lambda: desk.outbox.wakes)

    assert desk.outbox.wakes == [claim.wake.model_copy(update={"fence": claim.turn.fence + 1})]
    record = desk.given.turn("t1")
    assert (record.lease_owner, record.attempts, record.takeovers) == (None, 0, 0)
    with pytest.raises(LeaseLost):
        watch.check()


def test_nothing_is_handed_back_before_the_grace_is_over() -> None:
    desk = Desk(grace=timedelta(hours=1))
    claim = desk.given.claimed("t1", stage=Stage.DISPATCH, lease=LEASE)
    desk.leases.begin(claim, SystemClock().elapsed())
    desk.housekeeping.start()
    desk.draining.ask()

    desk.rounds(3)

    assert desk.outbox.wakes == []
    assert desk.given.turn("t1").lease_owner == claim.lease_owner
    desk.housekeeping.stop()


def test_stopping_ends_the_thread_and_withdraws_the_slots(desk: Desk) -> None:
    desk.housekeeping.start()
    desk.rounds(1)
    assert "host:1" in desk.ledger.tables.processes

    desk.housekeeping.stop()
    desk.housekeeping._thread.join(5)

    assert not desk.housekeeping._thread.is_alive()
    assert "host:1" not in desk.ledger.tables.processes


def test_a_store_that_is_away_does_not_keep_a_process_from_stopping(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.housekeeping.start()
    desk.rounds(1)
    desk.ledger.failing["forget"] = StoreUnavailableError("away")

    desk.housekeeping.stop()

    assert "housekeeping could not forget" in caplog.text
