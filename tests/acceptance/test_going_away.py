"""A worker is asked to stop while it runs turns. [DESIGN 6, SIGTERM]"""

from __future__ import annotations

import os
import signal

import pytest

from tests.acceptance.database import wait_for
from tests.acceptance.harness import Floor, effects_of, pools
from turnchain import Turn
from turnchain.examples.booking.fleet import Worker

pytestmark = pytest.mark.acceptance

LONG_LEASE = {"lease": 60}
"""So that what goes on within seconds was handed back and not taken over."""
SOON = 8.0


def two_workers(floor: Floor, pool: str, turn_at: str, plan: list[str]) -> tuple[Turn, Worker]:
    """A turn inside dispatch on the first worker, and a second one that could go on with it."""
    intent, iteration = turn_at.split("-")[0], int(turn_at[-1])
    floor.close_door(turn_at)
    first = floor.start("w1", pool=pool, settings=LONG_LEASE)
    turn = floor.enqueue("s1", plan)
    wait_for(lambda: floor.database.visit(turn, "s1", intent, iteration), 10, turn_at)
    floor.start("w2", pool=pool, settings=LONG_LEASE)
    return turn, first


def assert_handed_back(floor: Floor, turn: Turn) -> None:
    """The right to run changed hands once, and nobody counts it as a crash."""
    floor.assert_settled_once(turn, "s1")
    row = floor.database.turn(turn)
    # Once more where the worker that goes away fetched the wake-up call itself, before it stopped fetching.
    assert row["fence"] >= 1
    assert row["takeovers"] == 0
    assert floor.database.attempts(turn) == {0}


def pids(floor: Floor, what: str) -> list[int]:
    """Where the runs of a callable were."""
    return [row["pid"] for row in floor.database.visits("s1", what)]


@pools(inline=["prefork"])
def test_a_turn_is_handed_back_at_its_next_iteration_boundary(floor: Floor, pool: str) -> None:
    """[DESIGN 6] SIGTERM: hand back at the next boundary; fence + 1, ready, no attempt, no lease to wait for."""
    turn, first = two_workers(floor, pool, "work-s1-0", ["work", "work"])

    first.running.send_signal(signal.SIGTERM)
    floor.open_door("work-s1-0")

    assert turn.result(SOON).data == {"worked": 2}
    assert_handed_back(floor, turn)
    one, two = pids(floor, "work")
    assert one != two
    assert floor.database.effects(turn) == effects_of(2)
    assert first.running.wait(SOON) == 0


@pools(inline=["threads"])
def test_an_async_call_is_cancelled_after_its_grace_and_repeated_elsewhere(
    floor: Floor, pool: str
) -> None:
    """[DESIGN 6] SIGTERM: or after the grace by cancelling the async call; the iterations before it stay."""
    turn, first = two_workers(floor, pool, "talk-s1-1", ["work", "talk"])

    first.running.send_signal(signal.SIGTERM)
    wait_for(lambda: pids(floor, "talk cancelled"), SOON, "the cancelled call")
    wait_for(lambda: len(pids(floor, "talk")) == 2, SOON, "the call elsewhere")
    floor.open_door("talk-s1-1")

    assert turn.result(SOON).ok
    assert_handed_back(floor, turn)
    assert floor.database.effects(turn) == effects_of(1)
    assert first.running.wait(SOON) == 0


@pools(inline=["threads"])
def test_a_sync_call_is_abandoned_after_its_grace_and_what_it_writes_later_is_refused(
    floor: Floor, pool: str
) -> None:
    """[DESIGN 6] SIGTERM: a blocking sync call is abandoned; the turn does not wait for it."""
    turn, first = two_workers(floor, pool, "work-s1-0", ["work"])

    first.running.send_signal(signal.SIGTERM)
    wait_for(lambda: len(pids(floor, "work")) == 2, SOON, "the call elsewhere")
    assert first.running.poll() is None, "it waits for its call, as every Celery worker does"
    floor.open_door("work-s1-0")

    assert turn.result(SOON).ok
    assert_handed_back(floor, turn)
    assert first.running.wait(SOON) == 0
    assert floor.database.effects(turn) == effects_of(1)


@pools()
def test_a_worker_that_lost_a_child_still_stops(floor: Floor, pool: str) -> None:
    """A child killed while it waited for the shutdown left the parent waiting for it for ever, deaf to SIGTERM."""
    worker = floor.start(pool=pool)
    for child in worker.children():
        os.kill(child, signal.SIGKILL)
    wait_for(lambda: floor.slots(worker) >= worker.concurrency, 10, "new children")

    worker.running.send_signal(signal.SIGTERM)

    assert worker.running.wait(SOON) == 0
    wait_for(lambda: not floor.slots(worker), 5, "its slots withdrawn")
