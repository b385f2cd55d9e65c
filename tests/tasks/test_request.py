"""What a worker's main process does about a stage: says what it came to, and says so when a child dies."""

from __future__ import annotations

import logging
from collections.abc import Generator
from dataclasses import dataclass, field
from itertools import count
from json import JSONDecodeError
from typing import Any, cast

import pytest
from billiard.einfo import ExceptionInfo
from billiard.exceptions import Terminated, WorkerLostError
from celery.concurrency.base import BasePool
from celery.events.state import State, Task
from celery.worker import request as celerys

from tests.tasks.desk import Desk, body_of, header
from turnchain.orchestrator_core import wire
from turnchain.orchestrator_core.contracts import Stage, Wake
from turnchain.tasks.base import StageFailed
from turnchain.tasks.chain import publish
from turnchain.tasks.identity import process_id
from turnchain.tasks.request import StageRequest

CHILD = 4242


@pytest.fixture(autouse=True)
def _nothing_left(desk: Desk) -> Generator[None]:
    """The broker in memory is the process's own, not the test's."""
    yield
    desk.messages(wire.CONTROL_QUEUE)


@dataclass(slots=True)
class Audience:
    """Celery's dispatcher, and who listens: events become tasks and states as they do in Flower."""

    enabled: bool = True
    groups: set[str] = field(default_factory=set[str])
    sent: list[str] = field(default_factory=list[str])
    state: State = field(default_factory=State)
    _clock: count[int] = field(default_factory=count)

    def send(self, type: str, **fields: Any) -> None:  # noqa: A002 - Celery's name
        self.sent.append(type)
        clock = next(self._clock)
        instants = {"timestamp": clock, "local_received": clock, "clock": clock}
        self.state.event({"type": type, "hostname": "worker@here", **instants, **fields})

    @property
    def rows(self) -> dict[str, Task]:
        """The tasks that were told of, by the second part of their ids."""
        tasks = cast("dict[str, Task]", vars(self.state)["tasks"])
        return {each.split(":")[1]: task for each, task in tasks.items()}

    @property
    def shown(self) -> dict[str, tuple[str, Any]]:
        """State and result of every row."""
        return {each: (task.state, task.result) for each, task in self.rows.items()}


def request_of(
    desk: Desk, wake: Wake, audience: Audience | None = None, pool: BasePool | None = None
) -> StageRequest:
    """The parent's side of a stage's message that a child has accepted, of the class that Celery makes for a task."""
    publish(desk.app, wake)
    (message,) = desk.messages()
    task = desk.app.tasks[wire.task_name(wake.stage)]
    edge: Any = celerys
    made = edge.create_request_cls(
        StageRequest, task, pool or BasePool(), "worker@here", audience, app=desk.app
    )
    request = made(
        message,
        app=desk.app,
        hostname="worker@here",
        eventer=audience,
        task=task,
        on_ack=lambda *_: None,
        on_reject=lambda *_: None,
    )
    request.worker_pid = CHILD
    request.time_start = 1_000.0
    return request


def returned(line: str | None) -> tuple[bool, str, float]:
    """What the pool passes on of a task that returned this."""
    return False, repr(line), 0.25


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
    [
        WorkerLostError("signal 9 (SIGKILL)"),
        Terminated(9),
        SystemExit(1),
        KeyboardInterrupt(),
    ],
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


def test_an_announcement_is_found_in_flower_by_its_turn(desk: Desk) -> None:
    wake = desk.ready()
    request = request_of(desk, wake)

    request.on_failure(failed(WorkerLostError("gone")))
    request.on_failure(failed(WorkerLostError("gone")))

    first, second = (header(message, "id") for message in desk.messages(wire.CONTROL_QUEUE))
    assert first.startswith(f"{wake.turn_id}:takeover:0.")
    assert first != second


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


def test_the_limit_is_the_workers_own_whatever_the_publishers_message_says(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[ADR 0016] A staged worker's message says 60 s; an inline one runs all stages behind it."""
    wake = desk.ready()
    kills_after: list[float] = []

    class Pool(BasePool):
        def apply_async(self, *_: Any, timeout: float, **__: Any) -> None:
            kills_after.append(timeout)

    publish(desk.app, wake)
    (message,) = desk.messages()
    task = desk.app.tasks[wire.task_name(wake.stage)]
    monkeypatch.setattr(task, "time_limit", 1260)
    edge: Any = celerys
    made = edge.create_request_cls(StageRequest, task, Pool(), "worker@here", None, app=desk.app)
    made(message, app=desk.app, hostname="worker@here", task=task).execute_using_pool(Pool())

    assert kills_after == [1260]


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


# -- what Flower shows


@pytest.mark.parametrize(
    ("line", "state", "result"),
    [
        ("parked: no-worker, for 10 s", "PARKED", "no-worker, for 10 s"),
        ("not-claimed: moved-on", "NOT-CLAIMED", "moved-on"),
        ("lease-lost: moved-on", "LEASE-LOST", "moved-on"),
        ("handed-back: this worker goes away", "HANDED-BACK", "this worker goes away"),
        ("taken-over: attempt 2 of 3", "TAKEN-OVER", "attempt 2 of 3"),
        ("awaiting-input", "SUCCESS", "awaiting-input"),
        (None, "SUCCESS", "None"),
    ],
)
def test_a_stage_is_shown_as_what_it_came_to(
    desk: Desk, line: str | None, state: str, result: str
) -> None:
    audience = Audience()
    request = request_of(desk, desk.ready(), audience)

    request.send_event("task-started")
    request.on_success(returned(line))

    assert audience.shown == {"load": (state, result)}
    assert audience.rows["load"].runtime == 0.25


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (WorkerLostError("signal 9"), "WorkerLostError: signal 9"),
        (StageFailed("X in load of turn y"), "StageFailed: X in load of turn y"),
        (JSONDecodeError("what a person wrote", "", 0), "ExceptionWithTraceback()"),
    ],
)
def test_a_failure_is_shown_by_what_was_raised_where_that_says_ids_only(
    desk: Desk, error: BaseException, shown: str
) -> None:
    """Celery shows billiard's wrapping of it, which says nothing."""
    audience = Audience()

    request_of(desk, desk.ready(), audience).on_failure(failed(error))

    row = audience.rows["load"]
    assert (row.state, row.exception) == ("FAILURE", shown)


def test_a_hard_time_limit_is_shown_as_that(desk: Desk) -> None:
    audience = Audience()

    request_of(desk, desk.ready(), audience).on_timeout(soft=False, timeout=60)

    assert audience.rows["load"].exception == "TimeLimitExceeded: TimeLimitExceeded(60,)"


def test_the_wait_in_the_queue_is_a_row_with_a_run_time_of_its_own(desk: Desk) -> None:
    audience = Audience()
    request = request_of(desk, desk.ready(), audience)

    request.on_success(returned("waited 3.250 s"))

    assert audience.shown == {"queue": ("WAITED", None), "load": ("SUCCESS", "waited 3.250 s")}
    row = audience.rows["queue"]
    assert row.uuid == str(request.id).replace(":load:", ":queue:")
    assert (row.name, row.runtime, row.received) == ("turn.queue", 3.25, 1_000.0 - 3.25)
    assert row.args == request.argsrepr


def test_stages_called_in_place_are_rows_of_their_own(desk: Desk) -> None:
    """[ADR 0016] Their events follow when the message is through; each has its share of the time."""
    audience = Audience()
    request = request_of(desk, desk.ready(), audience)

    request.on_success(
        returned("waited 3.250 s > drift 0.500000 > dispatch 2.000000 taken-over: attempt 2 of 3")
    )

    assert audience.shown == {
        "queue": ("WAITED", None),
        "load": ("SUCCESS", "waited 3.250 s"),
        "drift": ("SUCCESS", "None"),
        "dispatch": ("TAKEN-OVER", "attempt 2 of 3"),
    }
    row = audience.rows["dispatch"]
    assert row.uuid == str(request.id).replace(":load:", ":dispatch:")
    assert (row.name, row.runtime, row.root_id) == ("turn.dispatch", 2.0, request.root_id)


@pytest.mark.parametrize("audience", [Audience(enabled=False), Audience(groups={"worker"})])
def test_where_nobody_listens_to_tasks_nothing_is_made_of_the_line(
    desk: Desk, audience: Audience, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker without task events has a dispatcher all the same, for its heartbeats; it drops every other event."""
    request = request_of(desk, desk.ready(), audience)
    monkeypatch.setattr("turnchain.tasks.telling.read", None)

    request.on_success(returned("waited 3.250 s"))

    assert set(audience.sent) <= {"task-succeeded"}


# -- a pool that cannot end a task


def test_whoever_ends_a_running_task_is_told_where_the_pool_cannot(desk: Desk) -> None:
    request = request_of(desk, desk.ready())

    with pytest.raises(NotImplementedError):
        request.terminate(BasePool(), "SIGTERM")


def test_a_thread_survives_that_its_task_was_to_be_ended_before_it_began(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    """What a thread of the pool raises before its task costs the pool that slot, for good."""
    request: Any = request_of(desk, desk.ready())
    request.time_start = None
    request.terminate(BasePool(), "SIGTERM")

    with caplog.at_level(logging.WARNING, "turnchain.tasks"):
        request.on_accepted(CHILD, 0.0)

    assert "not terminated" in caplog.text
