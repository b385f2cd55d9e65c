"""Flower, started as an operator would: what it shows, to whom, and what it counts. [DESIGN 1.6]"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from base64 import b64encode
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

import pytest

from tests.acceptance.database import wait_for
from tests.acceptance.harness import CHILD, LAUNCH, Floor, both_modes
from turnchain import Turn
from turnchain.orchestrator_core.contracts import STAGES
from turnchain.workers import flowerconfig

pytestmark = pytest.mark.acceptance

CONF = Path(flowerconfig.__file__)
SECRET = "what a person wrote \N{UMBRELLA}"
NAMES = ["turn.queue", *[f"turn.{stage}" for stage in STAGES]]
COMMAND = ("-m", "celery", "-A", "turnchain.workers.app", "flower", f"--conf={CONF}", "--port=0")


@dataclass(frozen=True, slots=True)
class Flower:
    """A running Flower."""

    url: str
    authorization: str | None = None

    def get(self, path: str, data: bytes | None = None) -> tuple[int, str]:
        """Status and text of an answer."""
        request = Request(self.url + path, data)
        if self.authorization:
            request.add_header(
                "Authorization", "Basic " + b64encode(self.authorization.encode()).decode()
            )
        try:
            with urlopen(request, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except HTTPError as error:
            return error.code, error.read().decode()

    def rows(self, search: str = "") -> list[dict[str, Any]]:
        """The rows of the tasks page."""
        asked = {
            "draw": 1, "start": 0, "length": 1000, "search[value]": search,
            "order[0][column]": 0, "columns[0][data]": "name", "order[0][dir]": "asc",
        }  # fmt: skip
        status, text = self.get(f"/tasks/datatable?{urlencode(asked)}")
        assert status == 200, text
        return json.loads(text)["data"]

    def counts(self, name: str) -> dict[str, float]:
        """A metric's samples by their labels, without the worker's name."""
        _, text = self.get("/metrics")
        found = re.findall(rf"^{name}{{(.*?)}} (\S+)$", text, re.MULTILINE)
        return {re.sub(r',?worker="[^"]*"', "", labels): float(value) for labels, value in found}


@contextlib.contextmanager
def flower(
    floor: Floor, settings: Mapping[str, str] | None = None, authorization: str | None = None
) -> Generator[Flower]:
    """Flower on a free port, which dies with the test's process."""
    tie = [sys.executable, "-I", "-S", str(LAUNCH), str(os.getpid()), str(int(signal.SIGKILL))]
    log = floor.directory / "flower.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            [*tie, "-1", "-1", sys.executable, *COMMAND],
            env={**floor.environ, **(settings or {})},
            stdout=output,
            stderr=output,
        )
    try:
        found = wait_for(
            lambda: re.search(r"Visit me at (http://127\.0\.0\.1:\d+)\s", log.read_text()),
            20,
            "Flower",
        )
        yield Flower(found[1], authorization)
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def watched(floor: Floor) -> Generator[Flower]:
    """Flower that already hears a worker with a prefork pool."""
    with flower(floor) as found:
        floor.start(concurrency=2, arguments=("-E",))
        wait_for(lambda: 1.0 in found.counts("flower_worker_online").values(), 10, "a heartbeat")
        yield found


def hold_compaction(floor: Floor, session: str, seconds: float) -> None:
    """As a process that compacts the session holds its lock."""
    floor.database.rows(
        "UPDATE turnchain_sessions SET lock_acquired_at = clock_timestamp(), "
        "lock_expires_at = clock_timestamp() + %s * interval '1 s' WHERE session_id = %s RETURNING 1",
        seconds,
        session,
    )


def told(watched: Flower, turn: Turn, stage: str, fence: int = 0) -> tuple[str, str]:
    """State and result of the one task that ran this; empty while there is none."""
    found = watched.rows(f"{turn.turn_id}:{stage}:{fence}.")
    return (found[0]["state"], found[0]["result"]) if len(found) == 1 else ("", "")


@both_modes
def test_a_turn_is_eight_rows_of_ids_kinds_and_numbers(floor: Floor, watched: Flower) -> None:
    said = {"input": {"say": SECRET}, "context": {"said": SECRET}, "state": {"saw": SECRET}}
    turn = floor.enqueue("s1", ["echo"], **said)
    floor.assert_settled_once(turn, "s1")
    wait_for(lambda: told(watched, turn, "compact") == ("SUCCESS", ""), 10, "the last event")

    rows = {row["name"]: row for row in watched.rows(f"{turn.turn_id}:")}

    assert sorted(rows) == sorted(NAMES)
    states = {name: row["state"] for name, row in rows.items()}
    assert states == dict.fromkeys(NAMES, "SUCCESS") | {"turn.queue": "WAITED"}
    assert {row["args"] for row in rows.values()} == {f"turn {turn.turn_id}, fence 0"}
    assert re.fullmatch(r"waited \d+\.\d{3} s", rows["turn.load"]["result"])
    assert rows["turn.queue"]["runtime"] > 0
    results = [rows[f"turn.{stage}"]["result"] for stage in STAGES[1:]]
    assert results == ["", "", "", "awaiting-input", "awaiting-input", ""]
    pages = ["/", "/tasks", "/broker", "/metrics"]
    pages += [f"/task/{quote(row['uuid'])}" for row in rows.values()]
    shown = json.dumps(rows) + "".join(watched.get(page)[1] for page in pages)
    assert shown.count(turn.turn_id) > len(NAMES)
    assert "what a person wrote" not in shown


def test_the_wait_for_a_worker_is_counted_by_its_length(floor: Floor, watched: Flower) -> None:
    """[Numbers] The second turn of a session waits for the first one, and only that."""
    thinking = {"input": {"seconds": 1.2}}
    first, second = (floor.enqueue("s1", ["think"], **thinking) for _ in range(2))
    second.result(10)
    wait_for(lambda: told(watched, second, "load")[0] == "SUCCESS", 10, "the event of its load")

    waits = [watched.rows(f"{turn.turn_id}:queue:")[0]["runtime"] for turn in (first, second)]
    counted = watched.counts("flower_task_runtime_seconds_bucket")

    assert waits[0] < 1.0 < 1.2 <= waits[1]
    assert counted['le="1.0",task="turn.queue"'] == 1
    assert counted['le="+Inf",task="turn.queue"'] == 2


def test_parking_takeovers_and_late_messages_are_states_and_counts(
    floor: Floor, watched: Flower
) -> None:
    database = floor.database
    floor.enqueue("s1").result(10)
    hold_compaction(floor, "s1", 2)
    parked = floor.enqueue("s1")
    killed = floor.at_the_door("s2")
    owner = database.owner(killed)
    assert owner
    database.wait_until_claimed(killed, floor.kill(owner), CHILD)
    floor.open_door("work-s2-0")
    floor.assert_settled_once(killed, "s2")
    floor.publish(killed, "drift", fence=7)
    floor.assert_settled_once(parked, "s1", index=1)

    again = ("TAKEN-OVER", "attempt 2 of 3, awaiting-input")
    wait_for(lambda: told(watched, killed, "dispatch", 1) == again, 10, "the second attempt")
    wait_for(lambda: told(watched, killed, "drift", 7) == ("NOT-CLAIMED", "done"), 10, "the late")
    wait_for(lambda: told(watched, parked, "lock")[0] == "PARKED", 10, "the parked one")

    assert re.fullmatch(r"compaction, for [12](\.\d+)? s", told(watched, parked, "lock")[1])
    died = "WorkerLostError: Worker exited prematurely: signal 9 (SIGKILL)"
    assert told(watched, killed, "dispatch")[0] == "FAILURE"
    assert told(watched, killed, "dispatch")[1].startswith(died)
    assert told(watched, killed, "takeover")[0] == "SUCCESS"
    counted = watched.counts("flower_events_total")
    assert counted['task="turn.lock",type="task-parked"'] == 1
    assert counted['task="turn.dispatch",type="task-taken-over"'] == 1
    assert counted['task="turn.drift",type="task-not-claimed"'] == 1


def test_with_accounts_all_but_metrics_and_health_take_one(floor: Floor) -> None:
    settings = {"TURNCHAIN_FLOWER_BASIC_AUTH": "ann:one,bob:two"}
    with flower(floor, settings) as stranger:
        bob = Flower(stranger.url, "bob:two")

        assert stranger.get("/healthcheck") == (200, "OK")
        assert stranger.get("/metrics")[0] == 200
        for path in ("/", "/tasks", "/broker", "/task/x", "/api/tasks"):
            assert stranger.get(path)[0] == 401
            assert Flower(stranger.url, "ann:two").get(path)[0] == 401
            assert bob.get(path)[0] in (200, 404)


def test_nobody_can_revoke_shut_down_or_apply_anything(floor: Floor) -> None:
    with flower(floor, {"TURNCHAIN_FLOWER_BASIC_AUTH": "ann:one"}) as found:
        ann = Flower(found.url, "ann:one")

        for path in (
            "/api/task/revoke/x?terminate=true",
            "/api/worker/shutdown/w1@here",
            "/api/task/async-apply/turn.load",
            "/api/task/send-task/turn.load",
            "/api/worker/queue/cancel-consumer/w1@here?queue=turns",
        ):
            assert ann.get(path, data=b"{}") == (403, "Read only mode is enabled")


def test_a_wrong_account_ends_the_start_with_one_sentence(floor: Floor) -> None:
    environ = {**floor.environ, "TURNCHAIN_FLOWER_BASIC_AUTH": "hunter2"}

    done = subprocess.run(
        [sys.executable, *COMMAND], env=environ, capture_output=True, text=True, timeout=30
    )

    assert done.returncode == 1
    (sentence,) = done.stderr.strip().splitlines()
    assert sentence.startswith("turnchain: TURNCHAIN_FLOWER_BASIC_AUTH is not usable: entry 1")
    assert "hunter2" not in done.stdout + done.stderr
