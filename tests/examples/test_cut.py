"""The demo's kill hits a worker inside a turn, and the takeover is told as it was."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from psycopg.rows import class_row

import turnchain
from turnchain.examples.booking.cut import OWNED, Cut, OwnedTurn, Takeover
from turnchain.examples.booking.dialogues import SAMPLE, read
from turnchain.examples.booking.fleet import Worker
from turnchain.examples.booking.play import play, prepare

ROOT = Path(__file__).parents[2]
QUICK = {
    "TURNCHAIN_LEASE": "1.5",
    "TURNCHAIN_HOUSEKEEPING": "0.5",
    "TURNCHAIN_SWEEP_INTERVAL": "0.5",
    "BOOKING_THINK_SECONDS": "0.2",
}


class Restarted(Worker):
    """A worker that is started again when it is killed, as the stack does it."""

    @property
    def pid(self) -> int:
        return self.running.pid

    def kill(self) -> None:
        super().kill()
        self.start()


@pytest.fixture(params=["threads", "prefork"])
def worker(
    request: pytest.FixtureRequest,
    database_url: str,
    redis_url: str,
    key_prefix: str,
    tmp_path: Path,
) -> Generator[Restarted]:
    environ = {
        **os.environ,
        "TURNCHAIN_POSTGRES_URL": database_url,
        "TURNCHAIN_BROKER_URL": redis_url,
        "TURNCHAIN_KEY_PREFIX": key_prefix,
        "TURNCHAIN_ORCHESTRATORS": "turnchain.examples.booking.bot:booking",
        **QUICK,
    }
    with ExitStack() as stack:
        found = Restarted("w1", environ, tmp_path / "w1.log", pool=request.param)
        found.start()
        stack.callback(found.terminate)
        found.wait_until_ready()
        yield found


@pytest.mark.acceptance
def test_a_worker_is_killed_inside_a_turn_which_goes_on_where_it_was(
    worker: Restarted, database_url: str, redis_url: str, key_prefix: str
) -> None:
    dialogues = read(SAMPLE)[:3]
    prepare(database_url, dialogues)
    client = turnchain.connect(
        database_url, broker=redis_url, orchestrators=["booking"], key_prefix=key_prefix
    )
    first = worker.pid
    kills: list[Cut] = []
    takeovers: list[Takeover] = []
    cut = Cut(database_url, [worker], kills.append, lambda _, each: takeovers.append(each))

    async def both() -> None:
        cutting = asyncio.create_task(cut.perform())
        await play(client, dialogues, 4, lambda _: None)
        await asyncio.wait_for(cutting, 5)

    asyncio.run(both())

    assert kills == [cut]
    assert (cut.worker, cut.process_id) == ("w1", first)
    assert max(each.kept for each in cut.turns) >= 1
    assert {each.turn for each in takeovers} == set(cut.turns)
    for each in takeovers:
        assert each.worker == "w1"
        assert each.process_id != each.turn.process_id
        assert 0 < each.seconds < 10
        assert each.kept == each.turn.kept
        assert each.rerun == 1  # what was begun and not saved; what was saved did not begin again


class Elsewhere:
    """A worker that must not be killed."""

    name, pid = "w0", os.getpid()

    def children(self) -> list[int]:
        return []

    def kill(self) -> None:
        raise AssertionError("killed")


@pytest.fixture
def inside(database_url: str) -> psycopg.Connection:
    """A database in which process 77 is in the middle of iteration 1 of a turn."""
    prepare(database_url, [])
    connection = psycopg.connect(database_url, autocommit=True)
    connection.execute(
        "INSERT INTO turnchain_turns (turn_id, orchestrator_name, session_id, run_id, status, stage, lease_owner, "
        "lease_expires_at, request_hash) VALUES ('00000000-0000-0000-0000-000000000001', 'booking', 's', 'r', "
        "'running', 'dispatch', 'host:ab12:77/3', clock_timestamp() + interval '20 s', '')"
    )
    connection.execute("INSERT INTO turnchain_snapshot_iterations VALUES ('r', 0, '{}')")
    connection.execute("INSERT INTO booking_runs VALUES ('r', 0, 77), ('r', 1, 77)")
    return connection


def inside_of(connection: psycopg.Connection) -> list[tuple[str, int, int, bool]]:
    with connection.cursor(row_factory=class_row(OwnedTurn)) as cursor:
        owned = cursor.execute(OWNED.encode()).fetchall()
    return [(each.session_id, each.process_id, each.kept, each.is_inside) for each in owned]


def test_a_process_is_inside_a_turn_while_it_has_begun_what_is_not_saved(
    inside: psycopg.Connection,
) -> None:
    with inside:
        assert inside_of(inside) == [("s", 77, 1, True)]


@pytest.mark.parametrize(
    ("change", "owned"),
    [
        # saved meanwhile
        (
            "INSERT INTO turnchain_snapshot_iterations VALUES ('r', 1, '{}')",
            [("s", 77, 2, False)],
        ),
        # begun by a former owner
        ("UPDATE booking_runs SET process_id = 76 WHERE iteration = 1", [("s", 77, 1, False)]),
        ("UPDATE turnchain_turns SET stage = 'persist'", [("s", 77, 1, False)]),
        ("UPDATE turnchain_turns SET lease_owner = NULL, lease_expires_at = NULL", []),
        ("UPDATE turnchain_turns SET status = 'queued'", []),
    ],
)
def test_a_process_is_not_inside_a_turn_otherwise(
    inside: psycopg.Connection, change: str, owned: list[tuple[str, int, int, bool]]
) -> None:
    with inside:
        inside.execute(change.encode())

        assert inside_of(inside) == owned


def test_nobody_is_killed_while_no_worker_of_ours_is_inside_a_turn(
    inside: psycopg.Connection, database_url: str
) -> None:
    cut = Cut(database_url, [Elsewhere()], lambda _: None, lambda *_: None)

    with inside, pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(cut.perform(), 0.2))

    assert cut.turns == []


class Finishes(Elsewhere):
    """A worker whose turn is saved between the look and the freeze."""

    pid = 77

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection
        self._looks = 0

    def children(self) -> list[int]:
        self._looks += 1
        if self._looks == 2:
            self._connection.execute("UPDATE turnchain_turns SET stage = 'persist'")
        return []


def test_a_worker_that_has_finished_meanwhile_goes_on_unharmed(
    inside: psycopg.Connection, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda pid, signum: sent.append((pid, signum)))
    cut = Cut(database_url, [Finishes(inside)], lambda _: None, lambda *_: None)

    with inside, pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(cut.perform(), 0.5))

    assert sent == [(77, signal.SIGSTOP), (77, signal.SIGCONT)]
    assert cut.turns == []
