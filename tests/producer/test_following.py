"""A producer's turn from enqueue to its result, on a real Postgres and a real worker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import monotonic
from uuid import uuid4

import pytest

from turnchain import SessionClient, Turn, TurnchainError, TurnEvent, TurnStatus, TurnTimeout
from turnchain.orchestrator_core.contracts import Stage
from turnchain.orchestrator_core.errors import (
    DeadlineExceededError,
    OrchestratorCancelledError,
    TurnConflictError,
)

pytestmark = pytest.mark.acceptance

SETTINGS = {"TURNCHAIN_SWEEP_INTERVAL": "1"}
PATIENCE = 10.0
UNKNOWN = "00000000-0000-4000-8000-000000000000"


def new_session() -> str:
    return f"session-{uuid4().hex[:8]}"


@contextmanager
def gate(directory: Path) -> Generator[Path]:
    """A file whose absence holds a turn in its dispatch; it is there at the end in any case."""
    file = directory / uuid4().hex
    try:
        yield file
    finally:
        file.touch()


def enqueue_waiting(client: SessionClient, until: Path) -> Turn:
    return client.enqueue("wait", {"until": str(until)}, session_id=new_session(), history=[])


def wait_for_dispatch(turn: Turn) -> None:
    deadline = monotonic() + PATIENCE
    while not ((record := turn.get()) and record.stage is Stage.DISPATCH and record.lease_owner):
        assert monotonic() < deadline, f"{record} does not come to its dispatch"
        threading.Event().wait(0.01)


def test_a_turn_is_answered(shop_client: SessionClient) -> None:
    session = new_session()

    turn = shop_client.enqueue("echo", {"say": "hello"}, session_id=session, history=[])
    result = turn.result(timeout=PATIENCE)

    assert result.ok
    assert result.status is TurnStatus.AWAITING_INPUT
    assert result.data == {"heard": {"say": "hello"}, "turns": 1}
    assert (result.turn_id, result.session_id, result.turn_index) == (turn.turn_id, session, 0)
    assert result.error is None
    assert result.raise_for_error() is result
    assert result.report is not None
    assert result.report.iterations == 1
    assert result.report.attempts == 0
    assert result.report.started_at is not None
    assert result.report.ended_at is not None
    assert result.report.started_at <= result.report.ended_at


def test_turns_of_a_session_are_answered_in_the_order_they_were_accepted(
    shop_client: SessionClient,
) -> None:
    session = new_session()

    turns = [
        shop_client.enqueue("echo", number, session_id=session, history=[]) for number in range(5)
    ]
    results = [turn.result(timeout=PATIENCE) for turn in reversed(turns)]

    assert [result.turn_index for result in results] == [4, 3, 2, 1, 0]
    assert [result.data["turns"] for result in results] == [5, 4, 3, 2, 1]


def test_a_state_patch_reaches_the_turn(shop_client: SessionClient) -> None:
    turn = shop_client.enqueue(
        "echo", "hi", session_id=new_session(), history=[], state={"turns": 41}
    )

    assert turn.result(timeout=PATIENCE).data["turns"] == 42


def test_a_failure_is_a_result_and_not_an_exception(shop_client: SessionClient) -> None:
    turn = shop_client.enqueue("fail", "go", session_id=new_session(), history=[])

    result = turn.result(timeout=PATIENCE)

    assert not result.ok
    assert result.status is TurnStatus.FAILED
    assert result.error is not None
    with pytest.raises(TurnchainError, match="there is no such order"):
        result.raise_for_error()


def test_every_producer_that_holds_the_id_gets_the_result(shop_client: SessionClient) -> None:
    turn = shop_client.enqueue(
        "echo", "hi", session_id=new_session(), history=[], tenant="a", user_id="ann"
    )

    again = shop_client.turn(turn.turn_id, tenant="a", user_id="ann")

    assert again.result(timeout=PATIENCE) == turn.result(timeout=PATIENCE)


def test_a_timeout_says_where_the_turn_stands_and_the_turn_goes_on(
    shop_client: SessionClient, tmp_path: Path
) -> None:
    with gate(tmp_path) as until:
        turn = enqueue_waiting(shop_client, until)
        wait_for_dispatch(turn)

        with pytest.raises(TurnTimeout) as refused:
            turn.result(timeout=0.05)

        assert turn.turn_id in str(refused.value)
        assert "running at dispatch" in str(refused.value)
        assert "cancel()" in str(refused.value)
        assert refused.value.context == {"turn_id": turn.turn_id, "status": "running"}
    assert turn.result(timeout=PATIENCE).data == {"waited": True}


def test_a_timeout_may_be_a_duration(shop_client: SessionClient, tmp_path: Path) -> None:
    with gate(tmp_path) as until:
        turn = enqueue_waiting(shop_client, until)

        with pytest.raises(TurnTimeout, match=r"within 0:00:00\.010000"):
            turn.result(timeout=timedelta(milliseconds=10))


def test_a_settled_turns_result_is_there_at_once_while_others_are_waited_for(
    shop_client: SessionClient, tmp_path: Path
) -> None:
    """What broke: a new waiter was asked for only after the next news or half a second."""
    settled = shop_client.enqueue("echo", "hi", session_id=new_session(), history=[])
    settled.result(timeout=PATIENCE)
    with gate(tmp_path) as until:
        held = enqueue_waiting(shop_client, until)
        other = threading.Thread(target=held.result, kwargs={"timeout": PATIENCE})
        other.start()

        took: list[float] = []
        for _ in range(3):
            began = monotonic()
            settled.result(timeout=PATIENCE)
            took.append(monotonic() - began)
    other.join()

    assert sorted(took)[1] < 0.25


def test_without_time_to_wait_a_settled_turn_has_its_result(shop_client: SessionClient) -> None:
    turn = shop_client.enqueue("echo", "hi", session_id=new_session(), history=[])
    turn.result(timeout=PATIENCE)

    assert turn.result(timeout=0).ok


def test_events_come_in_order_and_end_with_the_terminal_one(shop_client: SessionClient) -> None:
    turn = shop_client.enqueue("count", {"to": 3}, session_id=new_session(), history=[])

    events = list(turn.events())

    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert {event.turn_id for event in events} == {turn.turn_id}
    assert [event.is_terminal for event in events] == [False] * (len(events) - 1) + [True]
    assert events[-1].type == "orchestrator.turn.awaiting-input"
    assert [event.type for event in events].count("supervisor.iteration.completed") >= 3


def test_events_come_while_the_turn_runs(shop_client: SessionClient, tmp_path: Path) -> None:
    with gate(tmp_path) as until:
        turn = enqueue_waiting(shop_client, until)
        events = turn.events()

        seen = [next(events).type]
        while seen[-1] != "orchestrator.history.windowed":
            seen.append(next(events).type)

        record = turn.get()
        assert record is not None
        assert record.status is TurnStatus.RUNNING
    assert [event.type for event in events][-1] == "orchestrator.turn.awaiting-input"


def test_events_resume_after_the_last_one_seen(shop_client: SessionClient) -> None:
    turn = shop_client.enqueue("count", {"to": 2}, session_id=new_session(), history=[])
    events = list(turn.events())

    for seen in range(len(events) + 1):
        assert list(turn.events(after=seen)) == events[seen:]


def test_a_queued_turn_is_cancelled_at_once(shop_client: SessionClient, tmp_path: Path) -> None:
    session = new_session()
    with gate(tmp_path) as until:
        ahead = shop_client.enqueue("wait", {"until": str(until)}, session_id=session, history=[])
        behind = shop_client.enqueue("wait", {"until": str(until)}, session_id=session, history=[])
        wait_for_dispatch(ahead)

        assert behind.cancel() == "cancelled"
        result = behind.result(timeout=PATIENCE)

    assert result.status is TurnStatus.CANCELLED
    assert isinstance(result.error, OrchestratorCancelledError)
    assert result.turn_index is None
    assert ahead.result(timeout=PATIENCE).ok


def test_a_running_turn_is_cancelled_at_its_next_boundary(
    shop_client: SessionClient, tmp_path: Path
) -> None:
    with gate(tmp_path) as until:
        turn = enqueue_waiting(shop_client, until)
        wait_for_dispatch(turn)
        assert turn.cancel() == "requested"
        assert turn.cancel() == "requested"

    assert turn.result(timeout=PATIENCE).status is TurnStatus.CANCELLED
    assert turn.cancel() == "too-late"
    assert [event.type for event in turn.events()][-1] == "orchestrator.turn.cancelled"


def test_cancelling_what_is_not_there_is_told(shop_client: SessionClient) -> None:
    assert shop_client.turn(UNKNOWN).cancel() == "unknown"
    assert shop_client.turn("not an id").cancel() == "unknown"


def test_a_turn_is_read_where_it_stands(shop_client: SessionClient, tmp_path: Path) -> None:
    with gate(tmp_path) as until:
        turn = enqueue_waiting(shop_client, until)
        wait_for_dispatch(turn)

        record = shop_client.get(turn.turn_id)

    assert record is not None
    assert (record.status, record.stage) == (TurnStatus.RUNNING, Stage.DISPATCH)
    assert record.lease_owner is not None
    assert record == record.model_validate_json(record.model_dump_json())
    assert shop_client.get(UNKNOWN) is None
    assert shop_client.get("not an id") is None


def test_a_turn_that_waits_past_its_deadline_fails_with_that_reason(
    shop_client: SessionClient, tmp_path: Path
) -> None:
    session = new_session()
    with gate(tmp_path) as until:
        message = {"until": str(until)}
        ahead = shop_client.enqueue("wait", message, session_id=session, history=[])
        wait_for_dispatch(ahead)
        late = shop_client.enqueue(
            "wait", message, session_id=session, history=[], deadline=datetime.now(UTC)
        )

        result = late.result(timeout=PATIENCE)

    assert isinstance(result.error, DeadlineExceededError)
    assert ahead.result(timeout=PATIENCE).ok


def test_an_expected_index_refuses_what_is_not_next(shop_client: SessionClient) -> None:
    session = new_session()
    shop_client.enqueue("echo", "hi", session_id=session, history=[], expected_turn_index=0).result(
        timeout=PATIENCE
    )

    with pytest.raises(TurnConflictError, match="would get 1"):
        shop_client.enqueue("echo", "hi", session_id=session, history=[], expected_turn_index=0)


def test_the_async_twins_do_the_same(shop_client: SessionClient, tmp_path: Path) -> None:
    async def converse() -> None:
        turn = await shop_client.aenqueue("echo", "hi", session_id=new_session(), history=[])
        result = await turn.aresult(timeout=PATIENCE)
        events = [event async for event in turn.aevents()]
        record = await turn.aget()

        assert result == turn.result()
        assert events == list(turn.events())
        assert [event async for event in turn.aevents(after=events[-1].seq)] == []
        again = await shop_client.aget(turn.turn_id)
        assert record is not None
        assert again is not None
        assert record.turn_id == again.turn_id == turn.turn_id
        assert record.status is again.status is TurnStatus.AWAITING_INPUT
        assert await turn.acancel() == "too-late"

    asyncio.run(converse())


def test_an_async_wait_ends_with_its_timeout(shop_client: SessionClient, tmp_path: Path) -> None:
    async def converse(until: Path) -> None:
        turn = await shop_client.aenqueue(
            "wait", {"until": str(until)}, session_id=new_session(), history=[]
        )
        with pytest.raises(TurnTimeout, match="goes on"):
            await turn.aresult(timeout=0.05)

    with gate(tmp_path) as until:
        asyncio.run(converse(until))


def test_two_hundred_async_waiters_hold_no_thread_each(
    shop_client: SessionClient, tmp_path: Path
) -> None:
    waiters = 200

    async def converse(until: Path) -> None:
        turn = await shop_client.aenqueue(
            "wait", {"until": str(until)}, session_id=new_session(), history=[]
        )
        before = threading.active_count()
        waiting = [asyncio.create_task(turn.aresult(timeout=PATIENCE)) for _ in range(waiters)]
        other = await shop_client.aenqueue("echo", "hi", session_id=new_session(), history=[])
        assert (await other.aresult(timeout=PATIENCE)).ok
        assert not any(each.done() for each in waiting)
        assert threading.active_count() < before + 40

        until.touch()
        results = await asyncio.gather(*waiting)
        assert all(result.ok for result in results)

    with gate(tmp_path) as until:
        asyncio.run(converse(until))


def test_async_readers_of_events_leave_the_event_loops_threads_to_others(
    shop_client: SessionClient, tmp_path: Path
) -> None:
    """What broke: each reader held one thread of the loop's few until its next event, so everything else waited."""

    async def converse(until: Path) -> None:
        turn = await shop_client.aenqueue(
            "wait", {"until": str(until)}, session_id=new_session(), history=[]
        )
        reading = [asyncio.create_task(anext_terminal(turn.turn_id)) for _ in range(100)]
        await asyncio.to_thread(wait_for_dispatch, turn)

        began = monotonic()
        other = await shop_client.aenqueue("echo", "hi", session_id=new_session(), history=[])
        assert (await other.aresult(timeout=PATIENCE)).ok
        assert monotonic() - began < 2
        assert not any(each.done() for each in reading)

        until.touch()
        assert set(await asyncio.gather(*reading)) == {"orchestrator.turn.awaiting-input"}

    async def anext_terminal(turn_id: str) -> str:
        return [event.type async for event in shop_client.turn(turn_id).aevents()][-1]

    with gate(tmp_path) as until:
        asyncio.run(converse(until))


def test_an_async_reader_that_goes_away_leaves_nothing_behind(
    shop_client: SessionClient, tmp_path: Path
) -> None:
    """What broke: its thread went on until the turn's end, and closing the event loop waited for that."""

    async def converse(until: Path) -> None:
        turn = await shop_client.aenqueue(
            "wait", {"until": str(until)}, session_id=new_session(), history=[]
        )
        await asyncio.to_thread(wait_for_dispatch, turn)
        seen = [event.seq for event in await asyncio.to_thread(events_so_far, turn)]
        async with asyncio.timeout(0.3):
            async for _ in turn.aevents(after=seen[-1]):
                raise AssertionError("the turn stands still")

    def events_so_far(turn: Turn) -> list[TurnEvent]:
        return turn._ledger.events(turn.turn_id)

    with gate(tmp_path) as until:
        began = monotonic()
        with pytest.raises(TimeoutError):
            asyncio.run(converse(until))
        assert monotonic() - began < 5
