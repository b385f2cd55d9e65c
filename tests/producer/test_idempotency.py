"""Enqueueing the same again: one turn, whoever repeats it and however many do so at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from turnchain import Provider, SessionClient, Turn
from turnchain.orchestrator_core.errors import SessionOwnerError, TurnConflictError

DEADLINE = datetime(2050, 1, 2, 3, 4, 5, tzinfo=UTC)

EVERYTHING: dict[str, Any] = {
    "history": [{"role": "user", "content": "earlier"}],
    "state": {"n": 1},
    "context": {"locale": "nn"},
    "tenant": "a",
    "user_id": "ann",
    "priority": 3,
    "force": True,
    "expected_turn_index": 0,
    "deadline": DEADLINE,
}


def enqueue(client: SessionClient, **changes: Any) -> Turn:
    arguments: dict[str, Any] = {"session_id": "s", **EVERYTHING, **changes}
    return client.enqueue("bot", arguments.pop("input", {"say": "hi"}), **arguments)


@pytest.fixture
def count(database_url: str) -> Any:
    def rows() -> int:
        with psycopg.connect(database_url) as connection:
            found = connection.execute(
                "SELECT (SELECT count(*) FROM turnchain_turns), "
                "(SELECT count(*) FROM turnchain_turn_requests)"
            ).fetchone()
        assert found is not None
        assert found[0] == found[1]
        return found[0]

    return rows


@pytest.fixture(params=["turn_id", "idempotency_key"])
def identity(request: pytest.FixtureRequest) -> dict[str, str]:
    """What makes two calls the same one."""
    return {request.param: str(uuid4())}


def test_the_same_call_twice_is_one_turn(
    client: SessionClient, count: Any, identity: dict[str, str]
) -> None:
    first = enqueue(client, **identity)

    second = enqueue(client, **identity)

    assert second.turn_id == first.turn_id
    assert count() == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"input": {"say": "ho"}},
        {"input": {"say": "hi", "more": None}},
        {"history": []},
        {"history": Provider(name="earlier")},
        {"state": {"n": 2}},
        {"context": {}},
        {"priority": 4},
        {"force": False},
        {"deadline": DEADLINE + timedelta(seconds=1)},
        {"deadline": None},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_another_request_under_the_same_identity_is_refused_and_writes_nothing(
    client: SessionClient, count: Any, identity: dict[str, str], changes: dict[str, Any]
) -> None:
    enqueue(client, **identity)

    with pytest.raises(TurnConflictError, match="was used for a different request"):
        enqueue(client, **identity, **changes)

    assert count() == 1


def test_the_same_instant_in_another_zone_is_the_same_call(
    client: SessionClient, count: Any, identity: dict[str, str]
) -> None:
    first = enqueue(client, **identity)

    elsewhere = DEADLINE.astimezone(timezone(timedelta(hours=5, minutes=45)))
    second = enqueue(client, deadline=elsewhere, **identity)

    assert second.turn_id == first.turn_id
    assert count() == 1


def test_an_order_of_keys_is_no_difference(
    client: SessionClient, count: Any, identity: dict[str, str]
) -> None:
    """Two processes may build the same object in another order."""
    first = enqueue(client, input={"a": 1, "b": {"c": 2, "d": 3}}, **identity)

    second = enqueue(client, input={"b": {"d": 3, "c": 2}, "a": 1}, **identity)

    assert second.turn_id == first.turn_id
    assert count() == 1


def test_a_key_belongs_to_its_session(client: SessionClient, count: Any) -> None:
    first = enqueue(client, session_id="one", idempotency_key="k")
    second = enqueue(client, session_id="two", idempotency_key="k")

    assert first.turn_id != second.turn_id
    assert count() == 2


def test_without_an_identity_every_call_is_a_turn(client: SessionClient, count: Any) -> None:
    first = enqueue(client, expected_turn_index=None)
    second = enqueue(client, expected_turn_index=None)

    assert first.turn_id != second.turn_id
    assert count() == 2


def test_a_turn_id_belongs_to_its_session_and_owner(client: SessionClient, count: Any) -> None:
    turn_id = str(uuid4())
    enqueue(client, turn_id=turn_id)

    with pytest.raises(TurnConflictError, match="mint a new id"):
        enqueue(client, turn_id=turn_id, session_id="other")
    with pytest.raises(TurnConflictError, match="mint a new id"):
        enqueue(client, turn_id=turn_id, user_id="bob")

    assert count() == 1


def test_anothers_key_is_not_found_out(client: SessionClient, count: Any) -> None:
    enqueue(client, idempotency_key="k")

    with pytest.raises(SessionOwnerError) as refused:
        enqueue(client, idempotency_key="k", user_id="bob")

    assert "ann" not in f"{refused.value} {refused.value.context}"
    assert count() == 1


def test_the_same_call_from_many_threads_at_once_is_one_turn(
    client: SessionClient, count: Any, identity: dict[str, str]
) -> None:
    with ThreadPoolExecutor(8) as threads:
        turns = list(threads.map(lambda _: enqueue(client, **identity), range(24)))

    assert len({turn.turn_id for turn in turns}) == 1
    assert count() == 1


def test_a_repetition_after_the_end_finds_the_result(client: SessionClient, count: Any) -> None:
    first = enqueue(client, session_id="busy", idempotency_key="first")
    second = enqueue(client, session_id="busy", idempotency_key="second", expected_turn_index=None)
    assert second.cancel() == "cancelled"

    again = enqueue(client, session_id="busy", idempotency_key="second", expected_turn_index=None)

    assert again.turn_id == second.turn_id != first.turn_id
    assert again.result(timeout=1).status == "cancelled"
    assert count() == 2


def test_the_longest_names_there_are_fit_the_indexes(client: SessionClient, count: Any) -> None:
    longest = "\N{PILE OF POO}" * 200

    turn = client.enqueue(
        longest, "hi", session_id=longest, history=[], idempotency_key=longest, tenant=longest,
        user_id=longest,
    )  # fmt: skip

    record = turn.get()
    assert record is not None
    assert record.session.session_id == longest
    assert count() == 1
