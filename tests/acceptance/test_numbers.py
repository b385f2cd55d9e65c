"""The numbers that take their time: many turns on few slots, and the settings as they are shipped. [Numbers]"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from time import monotonic

import psycopg
import pytest

from tests.acceptance.conftest import floor_on
from tests.acceptance.database import wait_for
from tests.acceptance.harness import CHILD, SHIPPED, Floor, both_modes, effects_of, pools

pytestmark = [pytest.mark.acceptance, pytest.mark.long]

SESSIONS, SLOTS, THINKS = 200, 2, 0.2
SHIPPED_LEASE, SHIPPED_SWEEP = 20, 5


@pytest.fixture
def shipped(
    database_url: str, redis_url: str, key_prefix: str, chain_mode: str
) -> Generator[Floor]:
    """A floor with the settings as they are shipped."""
    with floor_on(database_url, redis_url, key_prefix, SHIPPED, chain_mode) as floor:
        yield floor


@pools(inline=["prefork", "threads"])
def test_two_hundred_turns_at_once_on_two_slots_are_answered_without_a_takeover(
    floor: Floor, pool: str
) -> None:
    """[Numbers] 200 one-turn sessions, 2 slots, 0.2 s dispatch, 3 s lease: no takeover, no attempt, all answered."""
    database = floor.database
    floor.start(pool=pool, concurrency=SLOTS)

    turns = {
        f"s{number}": floor.enqueue(f"s{number}", ["think"], input={"seconds": THINKS})
        for number in range(SESSIONS)
    }
    for turn in turns.values():
        assert turn.result(120).ok

    assert database.value("SELECT max(takeovers) FROM turnchain_turns") == 0
    assert database.value("SELECT max(attempts) FROM shop_rows") == 0
    assert database.value("SELECT max(fence) FROM turnchain_turns") == 0
    assert database.value("SELECT count(*) FROM shop_visits WHERE what = 'think'") == SESSIONS
    assert database.value("SELECT count(*) FROM turnchain_checkpoints") == SESSIONS


@both_modes
def test_a_child_killed_under_shipped_settings_is_replaced_within_two_seconds(
    shipped: Floor,
) -> None:
    """[Numbers] Child killed: its turn is claimed elsewhere within 2 s; ten in a row."""
    database = shipped.database
    shipped.start(concurrency=2)
    turn = shipped.enqueue("s1", ["stumble"] * 10)

    for iteration in range(10):
        database.wait_until_finished(turn, f"{iteration}:stumble:before")
        visit = wait_for(
            lambda: database.visit(turn, "s1", "stumble", iteration),  # noqa: B023
            10,
            "the next iteration",
        )
        database.wait_until_claimed(turn, shipped.kill(visit["pid"]), CHILD)

    assert turn.result(10).ok
    assert database.effects(turn) == effects_of(10, "stumble")


@pools(inline=["prefork", "threads"])
def test_a_worker_killed_under_shipped_settings_costs_lease_and_sweep_at_most(
    shipped: Floor, pool: str
) -> None:
    """[Numbers] Worker killed: within lease + sweep + 2 s of a live worker."""
    database = shipped.database
    first = shipped.start("w1", pool=pool)
    shipped.close_door("work-s1-0")
    turn = shipped.enqueue("s1")
    wait_for(lambda: database.effects(turn) == ["0:work:before"], 10, "the worker at the door")
    shipped.start("w2", pool=pool)

    killed_at = database.now()
    first.kill()

    database.wait_until_claimed(turn, killed_at, SHIPPED_LEASE + SHIPPED_SWEEP + 2)
    shipped.open_door("work-s1-0")
    shipped.assert_settled_once(turn, "s1")
    assert database.effects(turn) == effects_of(1)


def test_a_turn_that_nobody_published_starts_within_a_sweep_under_shipped_settings(
    shipped: Floor,
) -> None:
    """[DESIGN 6] After accept, before publish: at most 5 s."""
    shipped.start(pool="threads")

    turns = [shipped.accept(f"s{number}") for number in range(3)]

    for turn in turns:
        assert turn.result(SHIPPED_SWEEP + 2).ok


def test_a_view_that_sleeps_ten_seconds_in_its_transaction_delays_nobody(shipped: Floor) -> None:
    """[Numbers] A view that enqueues and then sleeps 10 s in its transaction blocks nobody."""
    shipped.start(pool="threads")
    shipped.enqueue("s1").result(10)
    with contextlib.closing(psycopg.connect(shipped.database.url)) as connection:
        sleeping = shipped.client.enqueue(
            "walk", {"plan": []}, session_id="s1", history=[], connection=connection
        )
        longest = 0.0
        until = monotonic() + 10
        while monotonic() < until:
            began = monotonic()
            for session in ("s1", "s2"):
                assert shipped.enqueue(session).result(5).ok
            longest = max(longest, monotonic() - began)
        connection.commit()

    assert longest < 2
    assert sleeping.result(SHIPPED_SWEEP + 2).ok
