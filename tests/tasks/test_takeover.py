"""Recovery, the quick way: it acts for the very process that died, and for nobody else."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from tests.tasks.desk import SECRET, Desk
from turnchain.orchestrator_core import wire
from turnchain.orchestrator_core.contracts import Claim, ProcessRecord, Refusal, Wake


def take_over(desk: Desk, *arguments: Any) -> None:
    task = desk.app.tasks[wire.TAKEOVER]
    task.push_request(id="takeover-1")
    task.run(*arguments)


def claimed(desk: Desk, process_id: str) -> Claim:
    claim = desk.core.ledger.claim(desk.ready(), f"{process_id}/1", desk.core.policy.lease)
    assert not isinstance(claim, Refusal)
    return claim


def test_a_dead_childs_turn_is_taken_over_and_published_under_the_next_fence(desk: Desk) -> None:
    wake = claimed(desk, "host:7").wake

    take_over(desk, wake.turn_id, "load", 0, "host:7")

    assert desk.wakes() == [wake.model_copy(update={"fence": 1})]
    record = desk.turn(wake)
    assert (record.attempts, record.takeovers, record.lease_owner) == (1, 1, None)


def test_a_second_announcement_changes_nothing(desk: Desk) -> None:
    wake = claimed(desk, "host:7").wake
    take_over(desk, wake.turn_id, "load", 0, "host:7")
    before = desk.turn(wake)
    desk.messages()

    take_over(desk, wake.turn_id, "load", 0, "host:7")

    assert desk.turn(wake) == before
    assert desk.wakes() == []


@pytest.mark.parametrize(
    ("stage", "fence", "process_id"),
    [("load", 0, "host:70"), ("load", 0, "other:7"), ("load", 1, "host:7"), ("drift", 0, "host:7")],
)
def test_what_another_process_runs_by_now_is_left_alone(
    desk: Desk, stage: str, fence: int, process_id: str
) -> None:
    wake = claimed(desk, "host:7").wake
    before = desk.turn(wake)

    take_over(desk, wake.turn_id, stage, fence, process_id)

    assert desk.turn(wake) == before
    assert desk.wakes() == []


def test_a_turn_that_dies_for_good_lets_the_next_one_through(desk: Desk) -> None:
    desk.core.ledger.beat(ProcessRecord(process_id="desk:1", slots=2))
    wake: Wake = claimed(desk, "host:7").wake
    behind = desk.accepted()
    for fence in range(desk.core.policy.max_attempts - 1):
        take_over(desk, wake.turn_id, "load", fence, "host:7")
        claim = desk.core.ledger.claim(
            wake.model_copy(update={"fence": fence + 1}),
            f"host:7/{fence + 2}",
            desk.core.policy.lease,
        )
        assert not isinstance(claim, Refusal)
    desk.messages()

    take_over(desk, wake.turn_id, "load", desk.core.policy.max_attempts - 1, "host:7")

    assert desk.turn(wake).status == "dead"
    assert [each.turn_id for each in desk.wakes()] == [behind]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("9a3b5a3e-3f5e-4e0c-8a58-6c1b1d1f8f10", "load", 0),
        ("9a3b5a3e-3f5e-4e0c-8a58-6c1b1d1f8f10", "nowhere", 0, "host:7"),
        (SECRET, "load", 0, "host:7"),
        (None, None, None, None),
        ({}, [], "", SECRET),
    ],
)
def test_a_malformed_announcement_is_dropped_and_logged_by_id(
    desk: Desk, caplog: pytest.LogCaptureFixture, arguments: tuple[Any, ...]
) -> None:
    with caplog.at_level(logging.DEBUG):
        take_over(desk, *arguments)

    (record,) = caplog.records
    assert record.getMessage() == "malformed takeover dropped"
    assert vars(record)["task_id"] == "takeover-1"
    assert SECRET not in str(vars(record))
    assert desk.messages() == []


def test_it_is_acknowledged_late_and_leaves_no_result(desk: Desk) -> None:
    task = desk.app.tasks[wire.TAKEOVER]

    assert (task.acks_late, task.ignore_result, task.time_limit) == (True, True, 60)
