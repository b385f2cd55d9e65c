"""Beat's sweep: what it finds it publishes, and only one process sweeps in an interval."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.tasks.desk import Desk
from turnchain.orchestrator_core import wire
from turnchain.orchestrator_core.contracts import ProcessRecord, Refusal, Wake
from turnchain.orchestrator_core.errors import StoreUnavailableError
from turnchain.orchestrator_core.sweep import SweepPolicy
from turnchain.stores.memory import MemoryLedger
from turnchain.tasks import base
from turnchain.tasks.environment import install_environment

EXPIRED = timedelta(seconds=-1)


def drain(desk: Desk) -> None:
    task = desk.app.tasks[wire.DRAIN]
    task.push_request(id="drain-1")
    task.run()


def test_an_expired_turn_is_published_under_the_next_fence(desk: Desk) -> None:
    install_environment(replace(desk.env, sweep=SweepPolicy(interval=timedelta(0))))
    drain(desk)  # the first sweep of all leaves every owner a lease of grace
    wake = desk.ready()
    assert not isinstance(desk.core.ledger.claim(wake, "host:7/1", EXPIRED), Refusal)

    drain(desk)

    assert desk.wakes() == [wake.model_copy(update={"fence": 1})]
    assert desk.turn(wake).attempts == 1


def test_a_queued_turn_is_admitted(desk: Desk) -> None:
    turn_id = desk.accepted()

    drain(desk)

    assert [wake.turn_id for wake in desk.wakes()] == [turn_id]


def test_within_an_interval_a_second_drain_does_nothing(desk: Desk) -> None:
    drain(desk)
    desk.accepted()

    drain(desk)

    assert desk.wakes() == []


def test_one_message_that_cannot_be_published_does_not_keep_back_the_others(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.core.ledger.beat(ProcessRecord(process_id="desk:1", slots=5))
    first, second = desk.accepted(session="one"), desk.accepted(session="two")
    publish = base.publish

    def refuse_first(app: object, wake: Wake) -> None:
        if wake.turn_id == first:
            raise ConnectionError("no")
        publish(desk.app, wake)

    monkeypatch.setattr(base, "publish", refuse_first)
    drain(desk)

    assert [wake.turn_id for wake in desk.wakes()] == [second]


def test_a_store_that_is_away_fails_the_task_and_changes_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(self: MemoryLedger, interval: timedelta, lease: timedelta) -> bool:
        raise StoreUnavailableError("away")

    monkeypatch.setattr(MemoryLedger, "begin_sweep", away)
    with pytest.raises(StoreUnavailableError):
        drain(desk)

    assert desk.messages() == []


def test_it_leaves_no_result_and_has_a_limit(desk: Desk) -> None:
    task = desk.app.tasks[wire.DRAIN]

    assert (task.ignore_result, task.time_limit) == (True, 60)
