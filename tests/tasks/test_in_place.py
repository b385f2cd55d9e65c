"""Seven Celery tasks behind one message. [DESIGN 5 Chain modes, ADR 0016]"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from celery import signals

from tests.tasks.desk import SECRET, Desk
from turnchain.orchestrator_core.contracts import STAGES, Claim, Stage, TurnStatus, Wake
from turnchain.orchestrator_core.errors import StoreUnavailableError
from turnchain.orchestrator_core.ports import Watch
from turnchain.tasks import in_place, telling
from turnchain.tasks.base import StageFailed
from turnchain.tasks.environment import install_environment
from turnchain.tasks.in_place import Note

CHAIN = [{"task": "turn.drift", "args": [], "options": {}}]


@pytest.fixture
def held(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The owners whose leases are being renewed."""
    owners: set[str] = set()
    leases = desk.core.leases
    begin, end = leases.begin, leases.end

    def begins(claim: Claim, granted: timedelta) -> Watch:
        owners.add(claim.lease_owner)
        return begin(claim, granted)

    def ends(claim: Claim) -> None:
        owners.discard(claim.lease_owner)
        end(claim)

    monkeypatch.setattr(leases, "begin", begins)
    monkeypatch.setattr(leases, "end", ends)
    return owners


def going_on(desk: Desk, serves: Callable[[Stage], bool] = lambda stage: True) -> None:
    """Have the process run these stages in place."""
    install_environment(replace(desk.env, goes_on=serves))


def run(desk: Desk, wake: Wake) -> str | None:
    """What the message's task returns."""
    task = desk.task(wake.stage, chain=CHAIN)
    task.request.id = f"{wake.turn_id}:{wake.stage}:{wake.fence}.abcd"
    line = task.pass_on(wake.stage, (wake.turn_id, wake.fence))
    assert task.request.chain is None
    return line


def test_all_seven_tasks_run_behind_one_message_each_with_an_id_of_its_own(desk: Desk) -> None:
    going_on(desk)
    wake = desk.ready()
    seen: list[str] = []

    def see(task_id: str, **_: Any) -> None:
        seen.append(task_id)

    signals.task_prerun.connect(see)
    try:
        run(desk, wake)
    finally:
        signals.task_prerun.disconnect(see)

    assert seen == [f"{wake.turn_id}:{stage}:0.abcd" for stage in STAGES[1:]]
    assert desk.wakes() == []
    turn = desk.turn(wake)
    assert (turn.status, turn.stage) == (TurnStatus.AWAITING_INPUT, Stage.DONE)


def test_what_the_message_returns_tells_of_each_stage_and_of_nothing_said(desk: Desk) -> None:
    going_on(desk)

    line = run(desk, desk.ready())

    assert line is not None
    own, notes = in_place.read(repr(line))
    assert own.startswith("waited ")
    assert [note.stage for note in notes] == list(STAGES[1:])
    assert {note.stage: note.line for note in notes}[Stage.DISPATCH] == "awaiting-input"
    assert SECRET not in line


def test_celery_logs_nothing_of_what_was_said(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    """[DESIGN 1.6] It writes the arguments of every task into its records."""
    going_on(desk)

    with caplog.at_level("DEBUG", logger="celery.app.trace"):
        run(desk, desk.ready())

    assert len(caplog.records) >= len(STAGES) - 1
    assert not any(SECRET in str(vars(record)) for record in caplog.records)


def test_notes_are_read_as_they_were_written() -> None:
    shown = "' > drift 0.250000 > dispatch 61.000000 taken-over: attempt 2 of 3, failed'"

    assert in_place.read(shown) == (
        "None",
        [
            Note(Stage.DRIFT, timedelta(milliseconds=250)),
            Note(Stage.DISPATCH, timedelta(seconds=61), "taken-over: attempt 2 of 3, failed"),
        ],
    )


@pytest.mark.parametrize("shown", ["None", "'waited 0.003 s'", "'parked: compaction, for 2 s'"])
def test_a_line_without_notes_is_read_as_it_is(shown: str) -> None:
    assert in_place.read(shown) == (shown.strip("'"), [])


def test_a_stage_on_another_queue_is_published(desk: Desk) -> None:
    going_on(desk, lambda stage: stage is not Stage.DISPATCH)
    wake = desk.ready()

    run(desk, wake)

    assert desk.wakes() == [wake.model_copy(update={"stage": Stage.DISPATCH})]


def test_the_lease_is_renewed_until_the_last_stage_is_through(desk: Desk, held: set[str]) -> None:
    """It ended with the first stage called in place, so that every longer turn was taken over alive."""
    going_on(desk)
    seen: list[int] = []

    def see(**_: Any) -> None:
        seen.append(len(held))

    signals.task_prerun.connect(see)
    try:
        run(desk, desk.ready())
    finally:
        signals.task_prerun.disconnect(see)

    assert seen == [1 for _ in STAGES[1:]]
    assert not held


@pytest.mark.parametrize(("after", "error"), [(1, MemoryError), (2, StageFailed)])
def test_what_fails_between_two_stages_leaves_no_lease_and_nobody_goes_on(
    desk: Desk,
    held: set[str],
    monkeypatch: pytest.MonkeyPatch,
    after: int,
    error: type[Exception],
) -> None:
    going_on(desk)
    told: list[Any] = []

    def fails(passage: Any, *_: Any) -> None:
        told.append(passage)
        if len(told) == after:
            raise MemoryError

    monkeypatch.setattr(telling, "tell", fails)

    with pytest.raises(error):
        run(desk, desk.ready())

    assert not held
    assert len(told) == after


def test_a_stage_that_fails_in_place_fails_the_message_and_leaves_no_lease(
    desk: Desk, held: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The row stands where it stood, for the sweep; nothing renews it any more."""
    going_on(desk)
    wake = desk.ready()

    def away(*_: Any, **__: Any) -> Any:
        raise StoreUnavailableError(SECRET)

    monkeypatch.setattr(desk.core.snapshots, "save", away)

    with pytest.raises(StageFailed) as failed:
        run(desk, wake)

    assert str(failed.value) == f"in dispatch of turn {wake.turn_id}, called in place"
    assert not held
    assert desk.wakes() == []
    assert desk.turn(wake).stage is Stage.LOAD
