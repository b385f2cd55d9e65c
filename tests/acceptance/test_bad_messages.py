"""What anybody may write into the broker: it is dropped once, logged by id, and the worker goes on. [Bad input]"""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Generator
from typing import Any
from uuid import uuid4

import pytest
import redis

from tests.acceptance.conftest import floor_on
from tests.acceptance.database import wait_for
from tests.acceptance.harness import Floor
from tests.servers import database, prefix

pytestmark = pytest.mark.acceptance

CANARY = "canary-5d0c"
"""Stands for what a person wrote; no log may have it."""
SOMEBODY = str(uuid4())
"""The id of no turn."""


@pytest.fixture(scope="module", params=["prefork", "threads"])
def floor(
    request: pytest.FixtureRequest, postgres_url: str, redis_url: str, _template: str
) -> Generator[Floor]:
    """One worker for the whole file: that it survives every message is the point."""
    with (
        database(postgres_url, template=_template) as database_url,
        prefix(redis_url) as key_prefix,
        floor_on(database_url, redis_url, key_prefix) as floor,
    ):
        floor.start(pool=request.param, concurrency=1, settings={"log_level": "DEBUG"})
        yield floor


def body_of(args: Any, kwargs: Any = None, embed: Any = None) -> bytes:
    """A body of task protocol 2."""
    return json.dumps([args, kwargs or {}, embed or {}]).encode()


def envelope(
    body: bytes | str, task: str = "turn.load", message_id: str = "", **changes: Any
) -> dict[str, Any]:
    """A message as kombu stores it in a Redis list. `changes` replace its parts, `headers__x` one header."""
    headers = {
        "lang": "py", "task": task, "id": message_id, "root_id": message_id, "parent_id": None, "group": None,
        "argsrepr": "()", "kwargsrepr": "{}", "origin": "somebody", "retries": 0, "timelimit": [None, None],
        "eta": None, "expires": None, "ignore_result": True,
    }  # fmt: skip
    for name in [each for each in changes if each.startswith("headers__")]:
        headers[name.removeprefix("headers__")] = changes.pop(name)
    properties = {
        "correlation_id": message_id, "delivery_mode": 2, "priority": 0, "body_encoding": "base64",
        "delivery_info": {"exchange": "", "routing_key": "turns"}, "delivery_tag": str(uuid4()),
    }  # fmt: skip
    raw = body if isinstance(body, str) else base64.b64encode(body).decode()
    return {
        "body": raw,
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": headers,
        "properties": properties,
        **changes,
    }


GOOD = body_of([SOMEBODY, 0])
DEEP = b"[" * 100_000

TASKS: dict[str, dict[str, Any]] = {
    "no arguments": {"body": body_of([])},
    "too many arguments": {"body": body_of([SOMEBODY, 0, CANARY])},
    "unknown keyword": {"body": body_of([SOMEBODY, 0], {CANARY: CANARY})},
    "no turn id": {"body": body_of([CANARY, 0])},
    "an object for a turn id": {"body": body_of([{CANARY: CANARY}, 0])},
    "a text for a fence": {"body": body_of([SOMEBODY, CANARY])},
    "a truth for a fence": {"body": body_of([SOMEBODY, True])},
    "a huge fence": {"body": body_of([SOMEBODY, 2**70])},
    "a negative fence": {"body": body_of([SOMEBODY, -1])},
    "null for arguments": {"body": body_of(None)},
    "a text for arguments": {"body": body_of(CANARY)},
    "takeover of an unknown stage": {
        "task": "turn.takeover", "body": body_of([SOMEBODY, CANARY, 0, "host:1"]),
    },
    "takeover without arguments": {"task": "turn.takeover", "body": body_of([])},
    "takeover by an object": {
        "task": "turn.takeover", "body": body_of([SOMEBODY, "load", 0, {CANARY: CANARY}]),
    },
    "takeover with a keyword": {"task": "turn.takeover", "body": body_of([], {CANARY: CANARY})},
    "drain with arguments": {"task": "turn.drain", "body": body_of([CANARY], {CANARY: CANARY})},
    "unknown task": {"task": f"turn.{CANARY}", "body": GOOD},
    "a body that is not JSON": {"body": f"{{{CANARY}".encode()},
    "a body that is not UTF-8": {"body": b"\xff\xfe" + CANARY.encode()},
    "a body that is no list": {"body": json.dumps({CANARY: CANARY}).encode()},
    "a body that is too short": {"body": json.dumps([CANARY]).encode()},
    "a body that is null": {"body": b"null"},
    "a body that is nested without end": {"body": DEEP},
    "pickle": {
        "body": pickle.dumps([[SOMEBODY, 0], {CANARY: CANARY}, {}]),
        "content-type": "application/x-python-serialize", "content-encoding": "binary",
    },
    "unknown content type": {"body": GOOD, "content-type": f"application/x-{CANARY}"},
    "unknown content encoding": {"body": GOOD, "content-encoding": CANARY},
    "unknown compression": {"body": GOOD, "headers__compression": CANARY},
    "an eta that is no instant": {"body": GOOD, "headers__eta": CANARY},
    "an expiry that is no instant": {"body": GOOD, "headers__expires": CANARY},
    "a time limit that is none": {"body": GOOD, "headers__timelimit": CANARY},
    "a time limit in words": {"body": GOOD, "headers__timelimit": [CANARY, CANARY]},
    "a name to be shown instead": {"body": GOOD, "headers__shadow": CANARY},
    "stamps that are none": {"body": GOOD, "headers__stamped_headers": CANARY},
    "retries that are no number": {"body": GOOD, "headers__retries": {CANARY: CANARY}},
    "a chain of texts": {"body": body_of([SOMEBODY, 0], embed={"chain": [CANARY, CANARY]})},
    "a chain that is none": {"body": body_of([SOMEBODY, 0], embed={"chain": {CANARY: CANARY}})},
    "callbacks that are none": {"body": body_of([SOMEBODY, 0], embed={"callbacks": [CANARY]})},
    "errbacks that are none": {"body": body_of([CANARY], embed={"errbacks": [{"task": CANARY}]})},
    "protocol 1 without an id": {"body": json.dumps({"task": "turn.load"}).encode(), "headers": {}},
    "protocol 1 with texts for everything": {
        "body": json.dumps(dict.fromkeys(("task", "id", "args", "kwargs", "eta"), CANARY)).encode(),
        "headers": {},
    },
    "no headers": {"body": GOOD, "headers": None},
    "an object for a task name": {"body": GOOD, "headers__task": {CANARY: CANARY}},
    "an unknown task without an id": {"body": GOOD, "headers": {"task": CANARY}},
    "an object for an id": {"body": GOOD, "headers__id": {CANARY: CANARY}},
}  # fmt: skip

ITEMS: dict[str, bytes] = {
    "text": CANARY.encode(),
    "bytes": b"\xff\x00\x80" + CANARY.encode(),
    "nothing": b"",
    "a JSON text": json.dumps(CANARY).encode(),
    "a JSON list": json.dumps([CANARY]).encode(),
    "an empty object": b"{}",
    "an object without properties": json.dumps({"body": CANARY}).encode(),
    "an object without a delivery tag": json.dumps({"body": "", "properties": {}}).encode(),
    "lists without end": DEEP,
    "a tagged value of no type": json.dumps({"__type__": CANARY, "__value__": 1}).encode(),
    "a body that is not base64": json.dumps(envelope(f"%{CANARY}%")).encode(),
    "an object for a body": json.dumps(envelope("") | {"body": {CANARY: CANARY}}).encode(),
    "texts for headers": json.dumps(envelope(GOOD) | {"headers": CANARY}).encode(),
    "a text for properties": json.dumps(envelope(GOOD) | {"properties": CANARY}).encode(),
}


def push(floor: Floor, item: bytes) -> None:
    """Write it where workers look for messages."""
    with redis.Redis.from_url(floor.broker_url) as client:
        client.lpush(f"{floor.key_prefix}turns", item)


def left_over(floor: Floor) -> int:
    """How many items are in the queue, or with a worker that has not acknowledged them."""
    with redis.Redis.from_url(floor.broker_url) as client:
        return client.llen(f"{floor.key_prefix}turns") + client.hlen(f"{floor.key_prefix}unacked")


def processes(floor: Floor) -> list[int]:
    """The worker and its children."""
    worker = floor.workers[0]
    return [worker.running.pid, *worker.children()]


def assert_goes_on(floor: Floor, before: list[int]) -> None:
    """The same processes run the next turn, nothing comes again, and no log has what was in it."""
    turn = floor.enqueue(f"s{uuid4().hex[:8]}")
    assert turn.result(10).ok
    wait_for(lambda: not left_over(floor), 5, "an empty queue")
    assert processes(floor) == before
    assert floor.workers[0].running.poll() is None
    assert CANARY not in floor.logs()


@pytest.mark.parametrize("case", TASKS)
def test_a_bad_message_is_dropped_once_and_logged_by_its_id(floor: Floor, case: str) -> None:
    """[Bad input] Dropped once, logged by id, and neither crashes a worker nor loops."""
    message_id = f"bad-{uuid4().hex[:12]}"
    before = processes(floor)
    message = envelope(message_id=message_id, **TASKS[case])

    push(floor, json.dumps(message).encode())

    assert_goes_on(floor, before)
    lines = [line for line in floor.logs().splitlines() if message_id in line]
    received = [line for line in lines if line.endswith('received"}')]
    assert len(received) <= 1
    if message["headers"]:
        assert lines, "nothing in the logs tells of it"


@pytest.mark.parametrize("case", ITEMS)
def test_an_item_that_is_no_message_is_dropped_once(floor: Floor, case: str) -> None:
    """[Bad input] kombu's reader raised on such an item, which ended one worker after another."""
    before = processes(floor)
    told = floor.logs().count("item dropped")

    push(floor, ITEMS[case])

    assert_goes_on(floor, before)
    assert floor.logs().count("item dropped") == told + 1


def test_a_poisoned_chain_cannot_keep_a_turn_from_going_on(floor: Floor) -> None:
    """A valid first link with rubbish behind it: Celery cannot publish that, and the sweep publishes what is due."""
    before = processes(floor)
    session = f"s{uuid4().hex[:8]}"
    turn = floor.accept(session)
    floor.database.execute("UPDATE turnchain_sweeps SET swept_at = clock_timestamp()")
    floor.client._ledger.admit()
    chain = [{"task": CANARY, "args": [CANARY]}, CANARY]
    body = body_of([turn.turn_id, 0], embed={"chain": chain})

    push(floor, json.dumps(envelope(body, message_id=str(uuid4()))).encode())

    assert turn.result(10).ok
    floor.assert_settled_once(turn, session)
    assert_goes_on(floor, before)
