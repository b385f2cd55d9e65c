"""A session and its turns belong to a tenant and a user; to anybody else they are not there."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from turnchain import SessionClient, Turn
from turnchain.orchestrator_core.errors import InvalidInputError, SessionOwnerError

ANN: dict[str, Any] = {"tenant": "a", "user_id": "ann"}
OTHERS: list[dict[str, Any]] = [
    {},
    {"tenant": "a"},
    {"user_id": "ann"},
    {"tenant": "b", "user_id": "ann"},
    {"tenant": "a", "user_id": "bob"},
    {"tenant": "ann", "user_id": "a"},
    {"tenant": "A", "user_id": "ann"},
]
every_other = pytest.mark.parametrize("other", OTHERS, ids=str)


def enqueue(client: SessionClient, owner: dict[str, Any], session: str = "s") -> Turn:
    return client.enqueue("bot", "a secret", session_id=session, history=[], **owner)


@every_other
def test_a_foreign_session_is_refused_and_nothing_is_written(
    client: SessionClient, database_url: str, other: dict[str, Any]
) -> None:
    enqueue(client, ANN)

    with pytest.raises(SessionOwnerError, match="belongs to another tenant or user") as refused:
        enqueue(client, other)

    assert "ann" not in f"{refused.value} {refused.value.context}"
    with psycopg.connect(database_url) as connection:
        assert connection.execute("SELECT count(*) FROM turnchain_turns").fetchone() == (1,)


@every_other
def test_a_session_of_nobody_is_not_everybodys(
    client: SessionClient, other: dict[str, Any]
) -> None:
    enqueue(client, {})
    if other:
        with pytest.raises(SessionOwnerError):
            enqueue(client, other)
    else:
        enqueue(client, other)


@every_other
def test_a_foreign_turn_is_not_there(client: SessionClient, other: dict[str, Any]) -> None:
    turn_id = enqueue(client, ANN).turn_id
    foreign = client.turn(turn_id, **other)

    assert client.get(turn_id, **other) is None
    assert foreign.get() is None
    assert foreign.cancel() == "unknown"
    with pytest.raises(InvalidInputError, match="is no turn of this owner"):
        foreign.result(timeout=0)
    with pytest.raises(InvalidInputError, match="is no turn of this owner"):
        next(foreign.events())

    async def twins() -> None:
        assert await client.aget(turn_id, **other) is None
        assert await foreign.aget() is None
        assert await foreign.acancel() == "unknown"
        with pytest.raises(InvalidInputError, match="is no turn of this owner"):
            await foreign.aresult(timeout=0)
        with pytest.raises(InvalidInputError, match="is no turn of this owner"):
            await anext(aiter(foreign.aevents()))

    asyncio.run(twins())
    record = client.get(turn_id, **ANN)
    assert record is not None
    assert record.cancel_requested_at is None


def test_the_owner_finds_what_is_his(client: SessionClient) -> None:
    turn = enqueue(client, ANN)

    assert client.turn(turn.turn_id, **ANN).get() == turn.get() != None  # noqa: E711


def test_a_foreign_turn_and_one_that_never_was_are_told_alike(client: SessionClient) -> None:
    turn_id = enqueue(client, ANN).turn_id
    unknown = "00000000-0000-4000-8000-000000000000"

    told: list[str] = []
    for each in (turn_id, unknown):
        with pytest.raises(InvalidInputError) as refused:
            client.turn(each, tenant="b").result(timeout=0)
        told.append(str(refused.value).replace(each, "it"))

    assert told[0] == told[1]


def test_the_same_session_id_under_another_orchestrator_is_another_session(
    client: SessionClient,
) -> None:
    enqueue(client, ANN)

    other = client.enqueue("other", "hi", session_id="s", history=[], tenant="b")

    assert other.get() is not None
