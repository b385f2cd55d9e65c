"""Broker messages are doubled, late or never sent; the row is the truth. [DESIGN 5, DESIGN 6, crash walk]"""

from __future__ import annotations

import contextlib

import psycopg
import pytest

from tests.acceptance.database import wait_for
from tests.acceptance.harness import (
    ONE_CLAIM_EACH,
    REWAKE,
    SWEPT,
    WHOLE_WORKER,
    Floor,
    both_modes,
    effects_of,
    inline,
    pools,
)
from turnchain import Provider
from turnchain.orchestrator_core.contracts import STAGES

pytestmark = pytest.mark.acceptance


def test_an_accept_that_rolls_back_leaves_nothing(floor: Floor) -> None:
    """[DESIGN 6] Before accept commits: nothing, neither a row nor a message."""
    floor.start(pool="threads")
    with contextlib.closing(psycopg.connect(floor.database.url)) as connection:
        turn = floor.client.enqueue(
            "walk", {"plan": []}, session_id="s1", history=[], connection=connection
        )
        connection.rollback()

    assert turn.get() is None
    following = floor.enqueue("s1")
    assert following.result(10).turn_index == 0
    for table in ("turns", "turn_requests", "sessions"):
        assert floor.database.value(f"SELECT count(*) FROM turnchain_{table}") == 1


def test_an_accepted_turn_that_nobody_published_runs_with_the_next_sweep(floor: Floor) -> None:
    """[DESIGN 6] After accept, before publish: queued, the sweep admits it."""
    floor.start(pool="threads")

    turn = floor.accept("s1")

    assert turn.result(SWEPT).ok
    floor.assert_settled_once(turn, "s1")
    assert floor.database.claims(turn) == ONE_CLAIM_EACH


def test_an_accepted_turn_that_nobody_published_runs_with_anybodys_admit(floor: Floor) -> None:
    """[DESIGN 6] After accept, before publish: the next enqueue of anybody admits it as well."""
    floor.start(pool="threads", settings={"sweep_interval": 60})
    forgotten = floor.accept("s1")

    floor.enqueue("s2")

    assert forgotten.result(SWEPT).ok


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_each_of_the_seven_messages_published_twice_to_two_workers_is_claimed_once(
    broker_floor: Floor, pool: str
) -> None:
    """[Numbers] Each message twice at once to two workers: one claim each, each callable once."""
    floor, database = broker_floor, broker_floor.database
    floor.start_two(pool)
    with contextlib.ExitStack() as stack:
        gates = {stage: stack.enter_context(database.claim_gate(stage)) for stage in STAGES}
        turn = floor.enqueue("s1", history=Provider(name="history"))

        for stage, gate in gates.items():
            gate.wait()
            floor.publish(turn, stage)
            floor.publish(turn, stage)
            # Two statements now claim the same row: one stands at the gate, the other behind its row lock.
            wait_for(lambda: database.waiting_claims() >= 2, 5, f"a second claim of {stage}")
            gate.open()

        floor.assert_settled_once(turn, "s1")
    assert database.claims(turn) == ONE_CLAIM_EACH
    for what in ("history", "work"):
        assert len(database.visits("s1", what)) == 1
    assert len(database.visits("", "window")) == 1
    assert database.effects(turn) == effects_of(1)
    assert floor.database.attempts(turn) == {0}


@inline
@pytest.mark.parametrize("pool", ["threads", pytest.param("prefork", marks=pytest.mark.long)])
def test_a_message_published_twice_to_two_workers_runs_one_turn_in_place(
    floor: Floor, pool: str
) -> None:
    """[Numbers] Twice at once to two workers: one claim, each callable once."""
    database = floor.database
    floor.start_two(pool)
    with database.claim_gate("load") as gate:
        turn = floor.enqueue("s1", history=Provider(name="history"))
        gate.wait()
        for _ in range(2):
            floor.publish(turn, "load")
        wait_for(lambda: database.waiting_claims() >= 2, 5, "a second claim")
        gate.open()

        floor.assert_settled_once(turn, "s1")
    assert database.claims(turn) == floor.undisturbed
    for session, what in (("s1", "history"), ("s1", "work"), ("", "window")):
        assert len(database.visits(session, what)) == 1
    assert database.effects(turn) == effects_of(1)
    assert database.attempts(turn) == {0}


@both_modes
def test_messages_of_stages_behind_and_of_the_running_one_find_nothing_to_claim(
    floor: Floor,
) -> None:
    """[DESIGN 6] After next publish, before ack: the redelivery, with the whole chain in it, is cut."""
    database = floor.database
    floor.start(pool="threads", concurrency=4)
    turn = floor.at_the_door("s1")

    for stage in STAGES:
        floor.publish(turn, stage)
    wait_for(lambda: floor.logs().count('"not claimed"') >= len(STAGES), 10, "seven refusals")
    floor.open_door("work-s1-0")
    floor.assert_settled_once(turn, "s1")
    for stage in STAGES:
        floor.publish(turn, stage)
    wait_for(lambda: floor.logs().count('"reason": "done"') >= len(STAGES), 10, "seven more")

    assert database.claims(turn) == floor.undisturbed
    assert database.effects(turn) == effects_of(1)


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_worker_killed_between_its_hand_over_and_the_next_publish_costs_no_attempt(
    floor: Floor, pool: str
) -> None:
    """[DESIGN 6] After hand-over, before next publish: rewake; a late redelivery of the old stage is cut."""
    database = floor.database
    first = floor.start("w1", pool=pool, concurrency=1)
    with database.hand_over_gate("window") as gate:
        floor.close_door("work-s1-0")
        turn = floor.enqueue("s1")
        gate.freeze_and_let_commit()
        assert database.stands(turn, stage="dispatch", lease_owner=None)
        first.kill()
        floor.start("w2", pool=pool, concurrency=2)

        wait_for(lambda: database.visit(turn, "s1", "work", 0), REWAKE + SWEPT, "the rewake")
        floor.publish(turn, "window")
        wait_for(lambda: '"not claimed"' in floor.logs(), 10, "the refusal")
        floor.open_door("work-s1-0")
        floor.assert_settled_once(turn, "s1")

    assert database.claims(turn) == ONE_CLAIM_EACH
    assert floor.database.attempts(turn) == {0}
    assert database.turn(turn)["takeovers"] == 0


def test_a_message_that_finds_its_turn_ready_at_a_later_stage_brings_that_stage_on(
    floor: Floor,
) -> None:
    """[DESIGN 5, Claim] The copy that advanced the turn may have died before it published: its redelivery helps."""
    database = floor.database
    first = floor.start("w1", pool="threads", concurrency=1)
    with database.hand_over_gate("drift") as gate:
        turn = floor.enqueue("s1")
        gate.freeze_and_let_commit()
        first.kill()
    # Nobody sweeps: only the redelivered message can bring it on.
    database.execute("UPDATE turnchain_sweeps SET swept_at = clock_timestamp()")
    floor.start("w2", pool="threads", settings={"sweep_interval": 60})

    floor.publish(turn, "drift")

    assert turn.result(5).ok
    floor.assert_settled_once(turn, "s1")
    assert database.claims(turn) == ONE_CLAIM_EACH


@pools(inline=["threads"])
def test_the_sessions_next_turn_starts_although_nobody_admitted_it_after_the_first(
    floor: Floor, pool: str
) -> None:
    """[DESIGN 6] After settle, before admit: next still queued, the sweep."""
    database = floor.database
    first = floor.start("w1", pool=pool, concurrency=1)
    with floor.outcome_gate() as gate:
        turn, following = floor.enqueue("s1"), floor.enqueue("s1")
        gate.freeze_and_let_commit()
        assert database.stands(turn, stage="compact", status="awaiting-input")
        assert database.stands(following, status="queued")
        first.kill()

        floor.start("w2", pool=pool, concurrency=2)

        assert following.result(SWEPT).turn_index == 1
        floor.assert_settled_once(following, "s1", index=1)
        # In place, the dead worker had kept the turn for it.
        within = WHOLE_WORKER if floor.is_inline else REWAKE + SWEPT
        wait_for(lambda: database.stands(turn, stage="done"), within, "the first's compact")
    assert database.turn(turn)["takeovers"] == int(floor.is_inline)


def test_a_view_that_enqueues_and_keeps_its_transaction_open_blocks_nobody(floor: Floor) -> None:
    """[Numbers] A view that enqueues and sleeps in its transaction: others, also of its session, go on meanwhile."""
    database = floor.database
    floor.start(pool="threads")
    with contextlib.closing(psycopg.connect(database.url)) as connection:
        waiting = floor.client.enqueue(
            "walk", {"plan": ["work"]}, session_id="s1", history=[], connection=connection
        )

        for session in ("s1", "s2", "s1"):
            assert floor.enqueue(session).result(5).ok
        assert not database.somebody_waits()
        connection.commit()

    assert waiting.result(SWEPT).turn_index == 2
