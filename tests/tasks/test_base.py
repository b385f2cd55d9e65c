"""What a stage task does around the core: goes on, cuts its chain, publishes what is ahead."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Sequence
from typing import Any

import pytest

from tests.tasks.desk import SECRET, Desk
from turnchain.orchestrator_core.contracts import (
    STAGES,
    Owner,
    ProcessRecord,
    Refusal,
    Stage,
    Wake,
)
from turnchain.orchestrator_core.errors import SettingsError, StoreUnavailableError
from turnchain.orchestrator_core.runner import Passage, run_stage
from turnchain.tasks import base
from turnchain.tasks.base import StageFailed
from turnchain.tasks.environment import remove_environment

CHAIN = ["the links that Celery publishes when the task is through"]


def run(desk: Desk, wake: Wake, chain: list[Any] | None = CHAIN) -> Any:
    """Run the stage's task; what is left of its chain."""
    task = desk.task(wake.stage, chain=chain)
    task.pass_on(wake.stage, (wake.turn_id, wake.fence))
    return task.request.chain


def test_a_stage_that_goes_on_leaves_its_chain_to_celery(desk: Desk) -> None:
    wake = desk.ready()

    assert run(desk, wake) == CHAIN

    assert desk.turn(wake).stage is Stage.DRIFT
    assert desk.wakes() == []


def test_a_stage_without_a_chain_publishes_the_next_itself(desk: Desk) -> None:
    """A message of the sweep may have been cut down to one link by somebody's tool; the turn goes on all the same."""
    wake = desk.ready()

    assert run(desk, wake, chain=None) is None

    assert desk.wakes() == [wake.model_copy(update={"stage": Stage.DRIFT})]


def test_a_message_that_comes_twice_is_cut_and_publishes_nothing(desk: Desk) -> None:
    wake = desk.ready()
    claim = desk.core.ledger.claim(wake, "other:1/1", desk.core.policy.lease)
    assert not isinstance(claim, Refusal)

    assert run(desk, wake) is None

    assert desk.wakes() == []
    assert desk.turn(wake).lease_owner == "other:1/1"


def test_a_late_message_publishes_the_stage_where_the_turn_stands_ready(desk: Desk) -> None:
    wake = desk.ready()
    following = run_stage(wake, desk.core).following
    assert following is not None

    assert run(desk, wake) is None

    assert desk.wakes() == [following]


def test_a_decided_turn_jumps_to_persist_and_leaves_the_chain(desk: Desk) -> None:
    wake = desk.ready()
    desk.core.ledger.request_cancel(wake.turn_id, Owner())

    assert run(desk, wake) is None

    assert desk.wakes() == [wake.model_copy(update={"stage": Stage.PERSIST})]


def test_the_turn_that_a_settled_one_let_through_is_published(desk: Desk) -> None:
    desk.core.ledger.beat(ProcessRecord(process_id="desk:1", slots=2))
    wake = desk.ready()
    behind = desk.accepted()
    for _ in range(Stage.PERSIST.order):
        following = run_stage(wake, desk.core).following
        assert following is not None
        wake = following

    assert run(desk, wake) == CHAIN

    assert [each.turn_id for each in desk.wakes()] == [behind]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("x",),
        (None, None),
        (SECRET, 0),
        ("9a3b5a3e-3f5e-4e0c-8a58-6c1b1d1f8f10", -1),
        (1, 2, 3),
    ],
)
def test_a_malformed_message_is_dropped_and_logged_by_id(
    desk: Desk, caplog: pytest.LogCaptureFixture, arguments: Sequence[Any]
) -> None:
    remove_environment()
    task = desk.task(Stage.LOAD, chain=CHAIN)

    with caplog.at_level(logging.DEBUG):
        task.pass_on(Stage.LOAD, arguments)

    assert task.request.chain is None
    (record,) = caplog.records
    assert record.getMessage() == "malformed message dropped"
    assert vars(record)["task_id"] == "task-load"
    assert SECRET not in str(vars(record))


def test_a_stage_that_cannot_run_fails_with_ids_only(
    desk: Desk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    wake = desk.ready()

    def broken(*_: object, **__: object) -> Passage:
        raise LookupError(SECRET)

    monkeypatch.setattr(base, "run_stage", broken)
    task = desk.task(Stage.LOAD, chain=CHAIN)
    with pytest.raises(StageFailed) as failed:
        task.pass_on(Stage.LOAD, (wake.turn_id, wake.fence))

    shown = "".join(traceback.format_exception(failed.value))
    assert str(failed.value) == f"LookupError in load of turn {wake.turn_id}"
    assert SECRET not in shown
    assert SECRET not in caplog.text
    assert task.request.chain is None
    assert desk.turn(wake).stage is Stage.LOAD
    assert vars(caplog.records[-1])["code"] == "LookupError"


def test_an_error_of_ours_is_told_by_its_code(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    wake = desk.ready()

    def away(*_: object, **__: object) -> Passage:
        raise StoreUnavailableError(SECRET)

    monkeypatch.setattr(base, "run_stage", away)
    with pytest.raises(StageFailed, match=r"^STORE_UNAVAILABLE in load of turn"):
        run(desk, wake)


def test_a_failed_stage_survives_celerys_json() -> None:
    from celery.backends.base import Backend

    from tests.tasks.desk import new_app

    backend = Backend(app=new_app())
    error = StageFailed("STORE_UNAVAILABLE in load of turn x")

    stored = backend.prepare_exception(error, "json")
    again = backend.exception_to_python(stored)

    assert type(again) is StageFailed
    assert again.args == error.args


def test_without_an_environment_the_way_out_is_told(desk: Desk) -> None:
    wake = desk.ready()
    remove_environment()

    with pytest.raises(SettingsError, match=r"turnchain\.install\(app\)"):
        run(desk, wake)


def test_a_publication_that_fails_after_the_commit_is_swallowed_and_logged(
    desk: Desk, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    wake = desk.ready()

    def unreachable(app: object, wake: Wake) -> None:
        raise ConnectionError(f"redis://user:{SECRET}@host")

    monkeypatch.setattr(base, "publish", unreachable)
    run(desk, wake, chain=None)

    assert desk.turn(wake).stage is Stage.DRIFT
    assert caplog.records[-1].getMessage() == "not published"
    assert SECRET not in str([vars(record) for record in caplog.records])


def test_seven_tasks_settle_a_turn_over_a_broker(desk: Desk) -> None:
    wake = desk.ready({"say": SECRET})
    base.publish_quietly(desk.app, wake)

    desk.run_published()

    record = desk.turn(wake)
    assert (record.stage, record.status) == (Stage.DONE, "awaiting-input")
    names = [message.headers["task"] for message in desk.received]  # pyright: ignore[reportOptionalSubscript]
    assert names == [f"turn.{stage.value}" for stage in STAGES]


def test_limits_and_acknowledgement_are_each_tasks_own(desk: Desk) -> None:
    for stage in STAGES:
        task = desk.app.tasks[f"turn.{stage.value}"]
        assert task.acks_late is True
        assert task.acks_on_failure_or_timeout is True
        assert task.reject_on_worker_lost is False
        assert task.ignore_result is True
        assert task.serializer == "json"
        assert task.time_limit == (900 if stage is Stage.DISPATCH else 60)
        assert task.Request == "turnchain.tasks.request:StageRequest"
