"""The database restarts, is away for a while, or drops a connection. [DESIGN 6, crash walk]"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator
from pathlib import Path
from time import monotonic

import psycopg
import pytest

from tests.acceptance.conftest import floor_on
from tests.acceptance.database import wait_for
from tests.acceptance.harness import (
    LEASE,
    SHIPPED,
    SWEPT,
    WHOLE_WORKER,
    Floor,
    both_modes,
    effects_of,
    freeze,
    pools,
    thaw,
)
from turnchain import Turn
from turnchain.orchestrator_core.errors import StoreUnavailableError
from turnchain.stores.postgres import connect, schema
from turnchain.workers.embedded import Server, start_postgres, temporary_directory

pytestmark = pytest.mark.acceptance

SESSIONS = ("s1", "s2", "s3")
SWEPT_AGAIN = "SELECT postmaster_started_at = pg_postmaster_start_time() FROM turnchain_sweeps"
EXPIRE = (
    "UPDATE turnchain_turns SET lease_expires_at = clock_timestamp() - interval '1 s' "
    "WHERE lease_owner IS NOT NULL"
)


class Postgres:
    """A server of the test's own, to be stopped."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.server: Server = start_postgres(directory, durable=False)
        with psycopg.connect(self.server.url) as connection:
            connection.execute(schema().encode())

    def restart(self) -> None:
        """Start it again where it was."""
        self.server = start_postgres(self.directory, port=self.server.port, durable=False)


@pytest.fixture
def postgres() -> Generator[Postgres]:
    """A database server that a test may treat as it likes."""
    with temporary_directory() as home:
        postgres = Postgres(home / "postgres")
        try:
            yield postgres
        finally:
            postgres.server.stop()


def three_at_the_door(floor: Floor) -> dict[str, Turn]:
    """Turns of three sessions that are inside dispatch and wait."""
    for session in SESSIONS:
        floor.close_door(f"work-{session}-0")
    turns = {session: floor.enqueue(session) for session in SESSIONS}
    for turn in turns.values():
        wait_for(lambda: floor.database.effects(turn) == ["0:work:before"], 10, "all at the door")  # noqa: B023
    return turns


def assert_nobody_was_taken_over(floor: Floor, turns: dict[str, Turn]) -> None:
    """Every turn is answered by the worker that had it."""
    for session, turn in turns.items():
        floor.open_door(f"work-{session}-0")
        assert turn.result(10).ok
        assert floor.database.turn(turn)["takeovers"] == 0
        assert len(floor.database.visits(session, "work")) == 1
        assert floor.database.effects(turn) == effects_of(1)


@pools(inline=["threads"])
def test_after_a_database_restart_owners_renew_before_anybody_takes_over(
    postgres: Postgres, redis_url: str, key_prefix: str, pool: str, chain_mode: str
) -> None:
    """[DESIGN 6] Database restart: owned and expired en masse; owners renew first (grace), then the sweep."""
    with floor_on(postgres.server.url, redis_url, key_prefix, chain_mode=chain_mode) as floor:
        database = floor.database
        owner = floor.start("w1", pool=pool, concurrency=3)
        turns = three_at_the_door(floor)
        queued = floor.enqueue("s1")
        floor.start("w2", pool="threads", concurrency=1)

        freeze(owner)  # so that the other one sweeps before the owner can renew
        postgres.server.stop()
        postgres.restart()
        with database.held("SELECT FROM turnchain_sweeps FOR UPDATE"):
            # As an outage leaves them that is longer than a lease; nobody sweeps while that row is held.
            database.execute(EXPIRE)
        wait_for(lambda: database.value(SWEPT_AGAIN), SWEPT + 3, "the first sweep")
        thaw(owner)
        wait_for(database.owners_have_renewed, LEASE + SWEPT, "the renewals")

        assert_nobody_was_taken_over(floor, turns)
        assert queued.result(10).turn_index == 1


@pytest.mark.long
@both_modes
def test_turns_go_on_through_a_database_that_is_away_for_longer_than_the_shipped_lease(
    postgres: Postgres, redis_url: str, key_prefix: str, chain_mode: str
) -> None:
    """[DESIGN 6] Database restart, with the shipped lease of 20 s and 25 s of outage."""
    with floor_on(postgres.server.url, redis_url, key_prefix, SHIPPED, chain_mode) as floor:
        database = floor.database
        floor.start(pool="prefork", concurrency=3)
        turns = three_at_the_door(floor)

        postgres.server.stop()
        # Nothing can be seen of a server that is away.
        threading.Event().wait(25)
        postgres.restart()
        wait_for(database.owners_have_renewed, 20 + 5 + 2, "grace, and then renewals")

        assert_nobody_was_taken_over(floor, turns)


def test_a_step_whose_journal_is_not_written_fails_the_stage_and_not_the_intent(
    floor: Floor,
) -> None:
    """A dropped connection in `ctx.step` was taken for the intent's own error: the turn went on without the step."""
    database = floor.database
    floor.start(pool="threads")
    floor.close_door("work-s1-0")
    turn = floor.enqueue("s1")
    wait_for(lambda: database.effects(turn) == ["0:work:before"], 10, "the worker at the door")
    with database.held("SELECT FROM turnchain_turns FOR UPDATE"):
        floor.open_door("work-s1-0")
        wait_for(lambda: database.terminate_waiting("INSERT INTO turnchain_steps"), 5, "the step")

    assert turn.result(WHOLE_WORKER).data == {"worked": 1}
    assert database.effects(turn) == effects_of(1)
    assert database.turn(turn)["takeovers"] == 1


@both_modes
def test_a_run_whose_first_save_is_not_answered_fails_the_stage_and_not_the_turn(
    floor: Floor,
) -> None:
    """A dropped connection before the first intent ended the turn as failed, with STORE_UNAVAILABLE."""
    database = floor.database
    floor.start(pool="threads")
    with database.held("LOCK TABLE turnchain_snapshots IN EXCLUSIVE MODE"):
        turn = floor.enqueue("s1")
        wait_for(lambda: database.terminate_waiting("turnchain_save_run"), 5, "the save")

    assert turn.result(WHOLE_WORKER).status == "awaiting-input"
    assert database.effects(turn) == effects_of(1)


@pytest.mark.long
def test_the_first_call_after_an_outage_finds_the_database(postgres: Postgres) -> None:
    """A pool waited twice as long before each new try: after a minute's outage, owners lost all in another minute."""
    with contextlib.closing(connect(postgres.server.url)) as stores:
        stores.ledger.admit()
        postgres.server.stop()
        since = monotonic()
        while monotonic() < since + 8:
            with pytest.raises(StoreUnavailableError):
                stores.ledger.admit()
        postgres.restart()

        since = monotonic()
        stores.ledger.admit()

        assert monotonic() - since < 2.5


def test_after_a_restart_no_caller_waits_over_the_connections_that_died_with_the_server(
    postgres: Postgres,
) -> None:
    """A pool slept a second, then two, over each of its dead connections: the first callers after a restart failed."""
    with contextlib.closing(connect(postgres.server.url, max_size=4)) as stores:
        with contextlib.ExitStack() as stack:
            for _ in range(4):
                stack.enter_context(stores.connections._borrowed(durable=False))
        postgres.server.stop()
        postgres.restart()

        since = monotonic()
        stores.ledger.admit()

        assert monotonic() - since < 0.8
