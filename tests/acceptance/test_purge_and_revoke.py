"""What an operator can do to Celery's messages and tasks costs a turn a moment, and nothing else. [DESIGN 1, 5]"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest
import redis

from tests.acceptance.database import wait_for
from tests.acceptance.harness import CHILD, ONE_CLAIM_EACH, REWAKE, SWEPT, Floor, effects_of
from turnchain import Turn
from turnchain.orchestrator_core.contracts import STAGES

pytestmark = pytest.mark.acceptance

PURGE = (sys.executable, "-m", "celery", "-A", "turnchain.workers.app", "purge", "-f")
WOKEN = REWAKE + SWEPT
ONE_AT_A_TIME = {"max_in_flight": 2}
"""With one slot: a turn that runs and one whose message stands in the queue."""


def purge(floor: Floor) -> int:
    """`celery purge`; returns how many messages that deleted."""
    done = subprocess.run(
        PURGE, env=floor.environ, capture_output=True, text=True, timeout=20, check=True
    )
    found = re.search(r"Purged (\d+) message", done.stdout)
    return int(found[1]) if found else 0


def queued_ids(floor: Floor) -> list[str]:
    """Task ids of the messages that stand in the queue."""
    with redis.Redis.from_url(floor.broker_url) as client:
        messages: Any = client.lrange(f"{floor.key_prefix}turns", 0, -1)
    return [json.loads(message)["headers"]["id"] for message in messages]


def revoke(floor: Floor, task_id: str, **how: Any) -> list[dict[str, Any]]:
    """`celery control revoke`; returns what every worker answered, once one did."""
    control = floor.app.control
    return wait_for(
        lambda: control.revoke(task_id, reply=True, timeout=1, limit=1, **how), 10, "an answer"
    )


def active_id(floor: Floor, turn: Turn) -> str:
    """The id of the task in which a worker runs the turn."""

    def look() -> str | None:
        answers = floor.app.control.inspect(timeout=1, limit=1).active() or {}
        ids = [str(task["id"]) for tasks in answers.values() for task in tasks]
        return next((each for each in ids if each.startswith(str(turn.turn_id))), None)

    return wait_for(look, 10, "the running task")


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_turns_in_flight_and_ready_survive_that_every_queue_is_purged(
    floor: Floor, pool: str
) -> None:
    database = floor.database
    floor.start(pool=pool, concurrency=2, settings={"max_in_flight": 8, "rewake_longest": REWAKE})
    turns = {f"s{number}": floor.at_the_door(f"s{number}") for number in range(2)}
    turns |= {f"s{number}": floor.enqueue(f"s{number}") for number in range(2, 10)}
    # By turn: on a busy machine, some were woken a second time by now.
    wait_for(
        lambda: len({each.partition(":")[0] for each in queued_ids(floor)}) == 6,
        10,
        "six turns with a message beside the two that run",
    )

    purged = purge(floor)
    for door in ("work-s0-0", "work-s1-0"):
        floor.open_door(door)
    purged += purge(floor)

    assert purged >= 6
    for session, turn in turns.items():
        assert turn.result(20).ok
        floor.assert_settled_once(turn, session)
        assert database.effects(turn) == effects_of(1)
        assert database.claims(turn) == ONE_CLAIM_EACH
        assert database.attempts(turn) == {0}


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_revoked_message_is_discarded_and_its_turn_woken_under_another_task_id(
    floor: Floor, pool: str
) -> None:
    database = floor.database
    floor.start(pool=pool, concurrency=1, settings=ONE_AT_A_TIME)
    running = floor.at_the_door("s1")
    turn = floor.enqueue("s2")
    (revoked,) = wait_for(lambda: queued_ids(floor), 10, "the message in the queue")

    revoke(floor, revoked)
    floor.open_door("work-s1-0")

    assert turn.result(WOKEN).ok
    assert revoked.startswith(f"{turn.turn_id}:load:0.")
    assert f"Discarding revoked task: turn.load[{revoked}]" in floor.logs()
    for session, each in (("s1", running), ("s2", turn)):
        floor.assert_settled_once(each, session)
        assert database.claims(each) == ONE_CLAIM_EACH
        assert database.effects(each) == effects_of(1)


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_revoking_the_task_that_runs_and_all_that_are_to_follow_it_costs_a_wake(
    floor: Floor, pool: str
) -> None:
    """A plain revoke lets a running task go on; those behind it in the chain are discarded when they come."""
    database = floor.database
    floor.start(pool=pool)
    turn = floor.at_the_door("s1")
    running = active_id(floor, turn)

    for stage in STAGES:
        revoke(floor, running.replace(":dispatch:", f":{stage}:"))
    floor.open_door("work-s1-0")

    assert turn.result(WOKEN).ok
    assert "Discarding revoked task: turn.persist[" in floor.logs()
    floor.assert_settled_once(turn, "s1")
    assert database.claims(turn) == ONE_CLAIM_EACH
    assert database.effects(turn) == effects_of(1)


@pytest.mark.parametrize(
    ("signal", "chain_mode"),
    [("SIGTERM", "staged"), ("SIGKILL", "staged"), ("SIGTERM", "inline")],
)
def test_a_terminated_task_is_taken_over_in_about_a_second_and_answered_once(
    floor: Floor, signal: str
) -> None:
    """[Numbers] Claimed elsewhere within 2 s. Celery takes an ended task for revoked, and its message for done."""
    database = floor.database
    floor.start(concurrency=2)
    turn = floor.at_the_door("s1")
    running = active_id(floor, turn)

    terminated_at = database.now()
    revoke(floor, running, terminate=True, signal=signal)

    database.wait_until_claimed(turn, terminated_at, CHILD)
    floor.open_door("work-s1-0")
    floor.assert_settled_once(turn, "s1")
    assert database.effects(turn) == effects_of(1)
    assert (database.turn(turn)["takeovers"], max(database.attempts(turn))) == (1, 1)
    assert floor.enqueue("s2").result(10).ok


def test_a_turn_whose_every_attempt_is_terminated_is_dead_and_frees_its_session(
    floor: Floor,
) -> None:
    """Whoever ends a turn by its tasks has to do it `max_attempts` times; to cancel it is one call."""
    database = floor.database
    floor.start(concurrency=2)
    turn = floor.at_the_door("s1")
    following = floor.enqueue("s1", ["think"], input={"seconds": 0})

    for attempt in range(3):
        wait_for(
            lambda: [row for row in database.visits("s1", "work") if row["attempt"] == attempt],  # noqa: B023
            10,
            f"attempt {attempt}",
        )
        revoke(floor, active_id(floor, turn), terminate=True, signal="SIGKILL")

    assert turn.result(10).status == "dead"
    assert following.result(10).ok


def test_threads_cannot_be_ended_and_the_one_that_was_to_be_goes_on(floor: Floor) -> None:
    database = floor.database
    floor.start(pool="threads", concurrency=1)
    turn = floor.at_the_door("s1")

    (answer,) = revoke(floor, active_id(floor, turn), terminate=True)

    assert "error" in str(answer)
    floor.open_door("work-s1-0")
    floor.assert_settled_once(turn, "s1")
    assert database.claims(turn) == ONE_CLAIM_EACH
    assert floor.enqueue("s2").result(10).ok, "the pool's one slot is still there"
