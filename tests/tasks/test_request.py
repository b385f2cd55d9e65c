"""What a prefork pool's parent does when a child dies: it says so, and survives whatever comes of that."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from billiard.einfo import ExceptionInfo
from billiard.exceptions import WorkerLostError

from tests.tasks.desk import Desk, body_of, header
from turnchain.orchestrator_core import wire
from turnchain.orchestrator_core.contracts import Stage, Wake
from turnchain.tasks.chain import publish
from turnchain.tasks.identity import process_id
from turnchain.tasks.request import StageRequest

CHILD = 4242


def request_of(desk: Desk, wake: Wake) -> StageRequest:
    """The parent's side of a stage's message that a child has accepted."""
    publish(desk.app, wake)
    (message,) = desk.messages()
    request = StageRequest(
        message,
        app=desk.app,
        hostname="worker@here",
        on_ack=lambda *_: None,
        on_reject=lambda *_: None,
    )
    setattr(request, "worker_pid", CHILD)  # noqa: B010 - Celery's stubs call it a text
    return request


def failed(error: BaseException) -> ExceptionInfo:
    try:
        raise error
    except BaseException:
        return ExceptionInfo()


def announced(desk: Desk) -> list[list[Any]]:
    messages = desk.messages(wire.CONTROL_QUEUE)
    assert {header(message, "task") for message in messages} <= {wire.TAKEOVER}
    return [body_of(message)[0] for message in messages]


@pytest.mark.parametrize(
    "error",
    [WorkerLostError("signal 9 (SIGKILL)"), SystemExit(1), KeyboardInterrupt()],
    ids=lambda error: type(error).__name__,
)
def test_the_loss_of_a_child_is_announced_with_the_process_that_died(
    desk: Desk, error: BaseException
) -> None:
    wake = desk.ready().model_copy(update={"stage": Stage.DISPATCH, "fence": 5})
    request = request_of(desk, wake)

    request.on_failure(failed(error))

    assert announced(desk) == [
        [wake.turn_id, "dispatch", 5, process_id(CHILD)],
    ]


def test_an_error_is_seen_bare_or_as_billiard_wraps_it(desk: Desk) -> None:
    wrapped = failed(WorkerLostError("gone"))
    assert type(wrapped.exception).__name__ == "ExceptionWithTraceback"
    bare = failed(WorkerLostError("gone"))
    bare.exception = WorkerLostError("gone")

    for info in (wrapped, bare):
        request_of(desk, desk.ready(session=str(id(info)))).on_failure(info)

    assert len(announced(desk)) == 2


def test_a_stage_that_merely_failed_is_not_announced(desk: Desk) -> None:
    request = request_of(desk, desk.ready())

    request.on_failure(failed(LookupError("no")))

    assert announced(desk) == []


def test_a_hard_time_limit_is_announced_and_a_soft_one_is_not(desk: Desk) -> None:
    wake = desk.ready()
    request = request_of(desk, wake)

    request.on_timeout(soft=True, timeout=60)
    assert announced(desk) == []

    request.on_timeout(soft=False, timeout=60)
    assert announced(desk) == [[wake.turn_id, "load", 0, process_id(CHILD)]]


def test_the_parent_survives_a_broker_that_is_away(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    request = request_of(desk, desk.ready())

    def away(*_: object, **__: object) -> None:
        raise OSError("connection refused by redis://user:password@host")

    monkeypatch.setattr(desk.app, "send_task", away)
    with caplog.at_level(logging.WARNING, "turnchain.tasks"):
        request.on_failure(failed(WorkerLostError("gone")))

    ours = [each for each in caplog.records if each.name == "turnchain.tasks"]
    assert [each.getMessage() for each in ours] == ["takeover not announced"]
    assert vars(ours[0])["task_id"] == request.id
    assert "password" not in str(vars(ours[0]))


def test_the_parent_survives_a_message_of_somebody_elses_making(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    desk.app.send_task("turn.load", args=("one", "two", "three"), queue="turns")
    (message,) = desk.messages()
    request = StageRequest(message, app=desk.app, on_ack=lambda *_: None, on_reject=lambda *_: None)

    request.on_timeout(soft=False, timeout=1)

    assert announced(desk) == []
    assert "takeover not announced" in caplog.text
