"""A pool process is killed after it claimed a stage and before it handed the stage over. [DESIGN 6, crash walk]"""

from __future__ import annotations

import contextlib

import pytest

from tests.acceptance.database import wait_for
from tests.acceptance.harness import CHILD, WHOLE_WORKER, Floor, both_modes, effects_of
from turnchain import Provider
from turnchain.orchestrator_core.contracts import STAGES

pytestmark = pytest.mark.acceptance

LIMITS: dict[str, tuple[dict[str, object], int]] = {
    "staged": ({"dispatch_limit": 1}, 1),
    "inline": ({"dispatch_limit": 1, "stage_limit": 0.3}, 3),
}
"""Settings, and the seconds after which they end a child that does not come back from dispatch: in place, a message has
the limits of all its stages together, rounded up."""
DEAD_WORKERS = {"lease": "1", "housekeeping": "0.3", "sweep_interval": "0.5", "rewake": "0.5"}
"""Where only the lease tells that a whole worker died, three times in a row."""


def test_a_child_killed_right_after_its_claim_is_replaced_in_each_of_the_seven_stages(
    broker_floor: Floor,
) -> None:
    """[DESIGN 6] After claim, before hand-over. [Numbers] Claimed elsewhere within 2 s; progress resets attempts."""
    floor, database = broker_floor, broker_floor.database
    floor.start_two()
    with contextlib.ExitStack() as stack:
        gates = {stage: stack.enter_context(database.claim_gate(stage)) for stage in STAGES}
        turn = floor.enqueue("s1", ["work", "work"])

        for gate in gates.values():
            child = gate.freeze_and_let_commit()
            killed_at = floor.kill(child)
            database.wait_until_claimed(turn, killed_at, CHILD)

        floor.assert_settled_once(turn, "s1")
    assert [stage for stage, _ in database.claims(turn)] == [each for each in STAGES for _ in "12"]
    assert max(database.attempts(turn)) == 1
    assert database.turn(turn)["takeovers"] == len(STAGES)
    assert database.effects(turn) == effects_of(2)


def test_a_child_killed_inside_the_work_of_a_stage_costs_that_stage_or_iteration_alone(
    floor: Floor,
) -> None:
    """[DESIGN 1.3] Settled iterations and finished steps are not run again, whichever stage the child dies in."""
    database = floor.database
    floor.start_two()
    floor.enqueue("s1").result(10)
    for door in ("history-s1", "window", "work-s1-1"):
        floor.close_door(door)
    turn = floor.enqueue("s1", ["work", "work"], history=Provider(name="history"))

    for session, what, door, iteration in (
        ("s1", "history", "history-s1", 0),
        ("", "window", "window", 0),
        ("s1", "work", "work-s1-1", 1),
    ):
        visit = wait_for(lambda: database.visit(turn, session, what, iteration), 10, what)  # noqa: B023
        if what == "work":
            database.wait_until_finished(turn, "1:work:before")
        killed_at = floor.kill(visit["pid"])
        database.wait_until_claimed(turn, killed_at, CHILD)
        floor.open_door(door)

    floor.assert_settled_once(turn, "s1", index=1)
    assert len(database.visits("s1", "history")) == 2
    runs = [row["iteration"] for row in database.visits("s1", "work")]
    assert runs == [0, 0, 1, 1], "of the second turn, iteration 0 ran once and iteration 1 twice"
    assert database.effects(turn) == effects_of(2), "the first step of iteration 1 was journaled"
    assert max(database.attempts(turn)) == 1


def test_a_child_killed_while_persist_reads_what_it_is_to_save_leaves_one_checkpoint(
    floor: Floor,
) -> None:
    """[DESIGN 6] Persist between its claim and its one transaction: the next one finds everything and commits once."""
    database = floor.database
    floor.start(concurrency=2)
    with database.claim_gate("persist") as gate:
        turn = floor.enqueue("s1")
        gate.wait()
        with database.held("LOCK TABLE turnchain_snapshots IN ACCESS EXCLUSIVE MODE"):
            gate.open()
            wait_for(lambda: database.somebody_waits("turnchain_snapshots"), 5, "persist")
            child = database.owner(turn)
            assert child

            killed_at = floor.kill(child)
            database.wait_until_claimed(turn, killed_at, CHILD)

        floor.assert_settled_once(turn, "s1")
    assert [stage for stage, _ in database.claims(turn)].count("persist") == 2
    assert database.effects(turn) == effects_of(1)


@both_modes
def test_a_turn_killed_once_in_each_of_ten_iterations_is_done_with_attempts_never_above_one(
    floor: Floor,
) -> None:
    """[Numbers] Killed once in each of 10 iterations: done, attempts 1. [DESIGN 6, Attempts]"""
    database = floor.database
    floor.start(concurrency=2)
    turn = floor.enqueue("s1", ["stumble"] * 10)

    for iteration in range(10):
        database.wait_until_finished(turn, f"{iteration}:stumble:before")
        visit = wait_for(
            lambda: database.visit(turn, "s1", "stumble", iteration),  # noqa: B023
            10,
            f"iteration {iteration}",
        )
        floor.kill(visit["pid"])

    assert turn.result(10).data == {"worked": 10}
    floor.assert_settled_once(turn, "s1")
    assert max(database.attempts(turn)) == 1
    assert database.turn(turn)["takeovers"] == 10
    runs = [(row["iteration"], row["attempt"]) for row in database.visits("s1", "stumble")]
    assert runs == [(iteration, attempt) for iteration in range(10) for attempt in (0, 1)]
    assert database.effects(turn) == effects_of(10, "stumble")


@pytest.mark.parametrize(
    ("pool", "chain_mode"),
    [
        ("prefork", "staged"),
        ("prefork", "inline"),
        pytest.param("threads", "staged", marks=pytest.mark.long),
        pytest.param("threads", "inline", marks=pytest.mark.long),
    ],
)
def test_a_turn_that_always_kills_its_worker_runs_max_attempts_times_and_frees_its_session(
    floor: Floor, pool: str
) -> None:
    """[Numbers] Exactly `max_attempts` runs, `dead`, and the session's next turn runs."""
    database = floor.database
    settings = {} if pool == "prefork" else DEAD_WORKERS
    worker = floor.start(pool=pool, settings=settings)
    deadly = floor.enqueue("s1", ["work", "die"])
    following = floor.enqueue("s1")
    if pool == "threads":
        for _ in range(3):
            worker.running.wait(10)
            worker = floor.start(pool=pool, settings=settings)

    result = deadly.result(10)

    assert result.status == "dead"
    assert not result.ok
    assert following.result(10).status == "awaiting-input"
    assert [row["attempt"] for row in database.visits("s1", "die")] == [0, 1, 2]
    assert database.turn(deadly)["attempts"] == 3
    assert database.events(deadly)[-1] == "orchestrator.turn.failed"
    assert database.effects(deadly) == effects_of(1)
    assert database.checkpoints("s1") == [0], "only of the turn that settled well"


@both_modes
def test_a_stage_past_its_hard_time_limit_is_taken_over(floor: Floor, chain_mode: str) -> None:
    """[DESIGN 6] A child that hits its limit is killed and its turn claimed elsewhere, in about a second."""
    database = floor.database
    settings, limit = LIMITS[chain_mode]
    floor.start(concurrency=2, settings=settings)
    turn = floor.enqueue("s1", ["stumble"])

    visit = wait_for(lambda: database.visit(turn, "s1", "stumble", 0), 10, "the first attempt")
    seconds = database.wait_until_claimed(turn, visit["at"], limit + CHILD)

    assert seconds > limit - 0.5, "not before its limit"
    assert turn.result(10).data == {"worked": 1}
    assert database.turn(turn)["takeovers"] == 1
    assert database.effects(turn) == effects_of(1, "stumble")


@both_modes
def test_an_apps_soft_time_limit_is_no_authors_failure(floor: Floor, chain_mode: str) -> None:
    """[DESIGN 11] Limits are set per task; a pool's own cannot be switched off, so it passes by. [ADR 0011]"""
    floor.start(arguments=("--soft-time-limit", "1"))
    turn = floor.at_the_door("s1")

    wait_for(lambda: "Soft time limit (1" in floor.logs(), 10, "the soft limit")
    floor.open_door("work-s1-0")

    assert turn.result(10).data == {"worked": 1}
    floor.assert_settled_once(turn, "s1")
    assert floor.database.claims(turn) == floor.undisturbed


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_the_turns_of_a_killed_worker_go_on_within_lease_and_sweep(
    broker_floor: Floor, pool: str
) -> None:
    """[Numbers] Worker killed: within lease + sweep + 2 s of a live worker. [DESIGN 6] Whole worker gone."""
    floor, database = broker_floor, broker_floor.database
    floor.start("w1", pool=pool)
    for session in ("s1", "s2"):
        floor.close_door(f"work-{session}-1")
    turns = {session: floor.enqueue(session, ["work", "work"]) for session in ("s1", "s2")}
    for turn in turns.values():
        database.wait_until_finished(turn, "1:work:before")
    floor.start("w2", pool=pool)

    killed_at = database.now()
    floor.workers[0].kill()

    for session, turn in turns.items():
        database.wait_until_claimed(turn, killed_at, WHOLE_WORKER)
        floor.open_door(f"work-{session}-1")
    for session, turn in turns.items():
        floor.assert_settled_once(turn, session)
        assert [row["iteration"] for row in database.visits(session, "work")] == [0, 1, 1]
        assert database.effects(turn) == effects_of(2)
        assert database.turn(turn)["takeovers"] == 1
        assert max(database.attempts(turn)) == 1


def test_a_turn_whose_only_worker_was_killed_goes_on_with_the_next_one(floor: Floor) -> None:
    """[Numbers] Nobody is left to notice; a worker that starts later finds the turn."""
    database = floor.database
    worker = floor.start(pool="threads")
    floor.close_door("work-s1-0")
    turn = floor.enqueue("s1")
    database.wait_until_finished(turn, "0:work:before")
    killed_at = database.now()
    worker.kill()
    floor.open_door("work-s1-0")

    floor.start("w2", pool="threads")

    database.wait_until_claimed(turn, killed_at, WHOLE_WORKER + 1)
    floor.assert_settled_once(turn, "s1")
    assert database.effects(turn) == effects_of(1)
