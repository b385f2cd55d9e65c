"""What the broker and the logs get to see: ids, and nothing that a person wrote. [DESIGN 1.6, Numbers]"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import socket
import threading
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis

from tests.acceptance.conftest import floor_on
from tests.acceptance.database import wait_for
from tests.acceptance.harness import CHILD, SWEPT, Floor, pools
from turnchain import Message, Provider
from turnchain.workers.embedded import start_valkey, temporary_directory

pytestmark = pytest.mark.acceptance

CANARY = "canary-8e21"
"""In everything that a person could have written."""
LIMIT_BYTES = 4096
COMPACT = (
    "UPDATE turnchain_sessions SET lock_expires_at = clock_timestamp() + interval '1 s' "
    "WHERE session_id = 's1'"
)
"""As a compaction that holds the session for another second."""


@dataclass
class Monitor:
    """All that a Redis server is told while it is watched."""

    url: str
    seen: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        self._socket = socket.create_connection((parts.hostname or "", parts.port or 0))
        self._socket.sendall(f"AUTH {parts.password}\r\nMONITOR\r\n".encode())
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        wait_for(lambda: self.seen.count(b"+OK") == 2, 5, "the monitor")

    def close(self) -> None:
        """Stop watching."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def commands(self) -> list[list[bytes]]:
        """The commands that were seen, with their arguments as they were sent."""
        lines = bytes(self.seen).split(b"\r\n")
        quoted = re.compile(rb'"((?:[^"\\]|\\.)*)"')
        return [
            [_unquoted(argument) for argument in quoted.findall(line)]
            for line in lines
            if b'"' in line
        ]

    def _watch(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._socket.recv(65536):
                self.seen += data


def _unquoted(argument: bytes) -> bytes:
    return argument.decode("latin-1").encode().decode("unicode_escape").encode("latin-1")


@pytest.fixture
def broker_url() -> Generator[str]:
    """A Valkey that nobody else speaks to."""
    with temporary_directory() as home:
        server = start_valkey(home / "valkey", durable=False)
        try:
            yield server.url
        finally:
            server.stop()


@pytest.fixture
def monitor(broker_url: str) -> Generator[Monitor]:
    """Watches it."""
    with contextlib.closing(Monitor(broker_url)) as monitor:
        yield monitor


@pytest.fixture
def own_floor(
    database_url: str, broker_url: str, monitor: Monitor, chain_mode: str
) -> Generator[Floor]:
    """A floor on that broker, watched from the start."""
    with floor_on(database_url, broker_url, "own:", chain_mode=chain_mode) as floor:
        yield floor


def messages(monitor: Monitor) -> list[bytes]:
    """What was put into queues, as it was sent."""
    return [command[2] for command in monitor.commands() if command[0] == b"LPUSH"]


def events(monitor: Monitor) -> str:
    """What was told to Flower and the like, in clear."""
    told = [command[2] for command in monitor.commands() if command[0] == b"PUBLISH"]
    return str([decoded(message) for message in told if message.startswith(b"{")])


def everything_stored(url: str) -> bytes:
    """Every key with its value, as far as there are any."""
    parts = list[Any]()
    with redis.Redis.from_url(url) as client:
        for key in client.scan_iter():
            parts += [key, client.dump(key) or b""]
            if client.type(key) == b"hash":
                parts += [part for pair in client.hgetall(key).items() for part in pair]
            if client.type(key) == b"list":
                parts += client.lrange(key, 0, -1)
    return b"\n".join(parts)


def keys(url: str) -> set[bytes]:
    """The keys of a server at rest: no message waits for a worker or for its acknowledgement."""
    with redis.Redis.from_url(url) as client:
        wait_for(lambda: not client.llen("own:turns") and not client.hlen("own:unacked"), 5, "rest")
        return {key for key in client.scan_iter() if key != b"own:unacked_mutex"}


def decoded(message: bytes) -> dict[str, Any]:
    """A message with its body in clear."""
    parts = json.loads(message)
    return parts | {"body": json.loads(base64.b64decode(parts["body"]))}


def written(size: int = 1) -> dict[str, Any]:
    """Arguments of a turn that have the canary wherever a person writes."""
    said = CANARY * size
    return {
        "input": {"said": said},
        "state": {"noted": said},
        "history": [Message(role="user", content=said)],
        "context": {"given": said},
    }


@pools(inline=["threads"])
def test_no_byte_of_what_a_person_wrote_reaches_the_broker_or_a_log(
    own_floor: Floor, monitor: Monitor, pool: str
) -> None:
    """[Numbers] Byte scan of every message, key and log line, over success, failures, takeover and rewake."""
    floor, database = own_floor, own_floor.database
    database.execute(
        "CREATE FUNCTION shop_quote() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        "RAISE EXCEPTION 'cannot store %', NEW.state USING DETAIL = NEW.state::text; END $$"
    )
    floor.start("w1", pool=pool, concurrency=1, settings={"log_level": "DEBUG"}, arguments=("-E",))

    answered = floor.enqueue("s1", ["echo"], **written())
    failing = floor.enqueue("s2", ["grumble"], **written())
    fetched = {**written(), "history": Provider(name="history", arguments={"says": CANARY})}
    provided = floor.enqueue("s3", ["echo"], **fetched)
    fetched["history"] = Provider(name="history", arguments={"raises": CANARY})
    unprovided = floor.enqueue("s4", ["echo"], **fetched)
    assert CANARY in str(answered.result(10).data)
    assert CANARY in str(provided.result(10).data)
    assert CANARY in str(failing.result(10).report)
    assert CANARY in str(unprovided.result(10).error_record)
    # The server's error quotes what it was to store: the stage fails and is taken over.
    database.execute(
        "CREATE TRIGGER shop_quote BEFORE INSERT ON turnchain_checkpoints FOR EACH ROW EXECUTE FUNCTION shop_quote()"
    )
    refused = floor.enqueue("s5", ["echo"], **written())
    wait_for(lambda: "stage failed" in floor.logs(), 10, "a failed stage")
    database.execute("DROP TRIGGER shop_quote ON turnchain_checkpoints")
    held = floor.enqueue("s6", ["work"], **written())
    assert refused.result(10).ok
    stored = everything_stored(floor.broker_url)
    assert held.result(10).ok

    seen = bytes(monitor.seen)
    assert CANARY.encode() not in seen
    assert CANARY.encode() not in stored + everything_stored(floor.broker_url)
    for message in messages(monitor):
        assert CANARY not in str(decoded(message))
    assert CANARY not in floor.logs()
    tasks = {decoded(message)["headers"]["task"] for message in messages(monitor)}
    published = {"turn.load"} if floor.is_inline else {"turn.load", "turn.persist", "turn.compact"}
    assert published <= tasks, "it was these that were scanned"
    assert CANARY not in events(monitor)
    assert {"task-received", "task-succeeded", "task-failed"} <= set(
        re.findall(r"task-\w+", events(monitor))
    )


def test_a_messages_size_is_below_four_kilobytes_and_independent_of_what_was_said(
    own_floor: Floor, monitor: Monitor
) -> None:
    """[Numbers] A broker message's size does not depend on input, history or state, and stays below 4 KB."""
    floor = own_floor
    floor.start(pool="threads")
    sizes = list[list[int]]()

    for session, size in (("s1", 1), ("s2", 20_000)):
        before = len(messages(monitor))
        turn = floor.enqueue(session, ["echo", "work"], **written(size))
        assert turn.result(10).ok
        wait_for(lambda: floor.database.stands(turn, stage="done"), 5, "done")  # noqa: B023
        sizes.append([len(message) for message in messages(monitor)[before:]])

    small, large = sizes
    assert len(small) == 7
    assert large == small
    assert max(small) < LIMIT_BYTES


def test_no_result_is_kept_and_no_key_is_left_behind(own_floor: Floor, monitor: Monitor) -> None:
    """[Numbers] No result keys; Redis key count returns to its baseline."""
    floor = own_floor
    floor.start(pool="threads")
    floor.enqueue("s0").result(10)
    baseline = keys(floor.broker_url)

    turns = [floor.enqueue(f"s{number}", ["echo"], **written()) for number in range(1, 21)]
    for turn in turns:
        assert turn.result(10).ok
        wait_for(lambda: floor.database.stands(turn, stage="done"), 5, "done")  # noqa: B023

    assert keys(floor.broker_url) == baseline
    assert not [key for key in baseline if b"celery-task-meta" in key]
    assert b"celery-task-meta" not in monitor.seen


def test_no_message_carries_an_eta_whatever_happens_to_its_turn(
    own_floor: Floor, monitor: Monitor
) -> None:
    """[DESIGN 5] No `eta`, no `countdown`, ever: not after a takeover, a rewake, a hand-back or a wait."""
    floor, database = own_floor, own_floor.database
    first = floor.start("w1", concurrency=1)
    turn = floor.enqueue("s1", ["stumble"])
    database.wait_until_finished(turn, "0:stumble:before")
    visit = wait_for(lambda: database.visit(turn, "s1", "stumble", 0), 10, "the first attempt")
    database.wait_until_claimed(turn, floor.kill(visit["pid"]), CHILD)
    assert turn.result(10).ok
    floor.close_door("talk-s1-0")
    handed_back = floor.enqueue("s1", ["talk"])
    wait_for(lambda: database.visit(handed_back, "s1", "talk", 0), 10, "the call")
    floor.start("w2", pool="threads")
    assert first.terminate() == 0
    floor.open_door("talk-s1-0")
    assert handed_back.result(10).ok
    database.execute(COMPACT)
    waited = floor.enqueue("s1")
    assert waited.result(10).ok
    swept = floor.accept("s2")
    assert swept.result(SWEPT).ok

    headers = [decoded(message)["headers"] for message in messages(monitor)]

    assert len(headers) > 25
    assert "turn.takeover" in {each["task"] for each in headers}
    assert [each for each in headers if each["eta"] is not None] == []
    assert [each for each in headers if each["expires"] is not None] == []
    assert database.turn(waited)["fence"] >= 1, "it was parked"
    for message in messages(monitor):
        args, kwargs, _ = decoded(message)["body"]
        assert len(args) in (2, 4)
        assert kwargs == {}
