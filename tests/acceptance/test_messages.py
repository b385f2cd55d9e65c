"""Broker messages are lost, doubled, late or never sent; the row is the truth. [DESIGN 5, DESIGN 6, crash walk]"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis

from tests.acceptance.conftest import floor_on
from tests.acceptance.harness import REWAKE, SWEPT, Floor, effects_of, wait_for
from turnchain import Provider, Turn
from turnchain.orchestrator_core.contracts import STAGES
from turnchain.workers.embedded import Server, start_valkey, temporary_directory

pytestmark = pytest.mark.acceptance

ONE_CLAIM_EACH = [(stage.value, 0) for stage in STAGES]


class Broker:
    """A Valkey of the test's own, to be flushed and stopped."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.server: Server = start_valkey(directory, durable=False)

    def restart(self) -> None:
        """Start it again where it was: same port and password, and nothing in it."""
        self.server = start_valkey(self.directory, port=self.server.port, durable=False)

    def flush(self) -> None:
        """FLUSHALL: every queue, every binding."""
        with redis.Redis.from_url(self.server.url) as client:
            client.flushall()


@pytest.fixture
def broker() -> Generator[Broker]:
    """A broker that a test may treat as it likes."""
    with temporary_directory() as home:
        broker = Broker(home / "valkey")
        try:
            yield broker
        finally:
            broker.server.stop()


@pytest.fixture
def own_floor(database_url: str, broker: Broker) -> Generator[Floor]:
    """A floor on that broker."""
    with floor_on(database_url, broker.server.url, "own:") as floor:
        yield floor


def attempts(floor: Floor, turn: Turn) -> list[int]:
    """Every value that the turn's attempts had."""
    return sorted({row["attempts"] for row in floor.database.history(turn)})


def at_the_door(floor: Floor, session: str, **arguments: Any) -> Turn:
    """A turn whose dispatch has begun and waits."""
    floor.close_door(f"work-{session}-0")
    turn = floor.enqueue(session, **arguments)
    wait_for(lambda: floor.database.visit(turn, session, "work", 0), 10, "the worker at the door")
    return turn


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


def test_messages_that_a_flush_swallows_are_published_again(
    own_floor: Floor, broker: Broker
) -> None:
    """[DESIGN 6] FLUSHALL: ready, rewake, no attempt."""
    turns = [own_floor.enqueue("s1"), own_floor.enqueue("s2")]
    broker.flush()

    own_floor.start(pool="threads")

    for turn in turns:
        assert turn.result(REWAKE + SWEPT).ok
        assert attempts(own_floor, turn) == [0]


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_turn_goes_on_through_a_flush_and_later_turns_find_their_queue(
    own_floor: Floor, broker: Broker, pool: str
) -> None:
    """[DESIGN 6] FLUSHALL under a running worker: bindings are gone, too, and nothing may depend on them."""
    own_floor.start(pool=pool)
    turn = at_the_door(own_floor, "s1")

    broker.flush()
    own_floor.open_door("work-s1-0")

    assert turn.result(REWAKE + SWEPT).ok
    own_floor.assert_settled_once(turn, "s1")
    assert own_floor.database.claims(turn) == ONE_CLAIM_EACH
    assert attempts(own_floor, turn) == [0]
    assert own_floor.enqueue("s2").result(REWAKE + SWEPT).ok


@pytest.mark.parametrize("pool", ["prefork", "threads"])
@pytest.mark.parametrize(
    "down",
    [pytest.param(0, id="until-the-hop"), pytest.param(10, id="10s", marks=pytest.mark.long)],
)
def test_a_turn_whose_next_link_cannot_be_published_is_untouched_and_goes_on(
    own_floor: Floor, broker: Broker, pool: str, down: int
) -> None:
    """[Numbers] Publishing the next link fails (broker down for 10 s): the committed turn is untouched and goes on."""
    database = own_floor.database
    own_floor.start(pool=pool)
    turn = at_the_door(own_floor, "s1")

    broker.server.stop()
    own_floor.open_door("work-s1-0")
    wait_for(lambda: database.stands(turn, stage="persist", lease_owner=None), 5, "the hand-over")
    stays_down(own_floor, turn, down)
    broker.restart()

    own_floor.assert_settled_once(turn, "s1")
    assert database.claims(turn) == ONE_CLAIM_EACH
    assert attempts(own_floor, turn) == [0]
    assert database.turn(turn)["takeovers"] == 0
    assert database.effects(turn) == effects_of(1)


def stays_down(floor: Floor, turn: Turn, seconds: int) -> None:
    """Wait so long by the database's clock, in which the turn must not move; at least for one failed publish."""
    since = floor.database.now()
    wait_for(lambda: "not published" in floor.logs() or "refused" in floor.logs(), 10, "a failure")
    wait_for(
        lambda: (floor.database.now() - since).total_seconds() >= seconds, seconds + 5, "the outage"
    )
    assert floor.database.stands(turn, stage="persist", lease_owner=None, fence=0, attempts=0)


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_each_of_the_seven_messages_published_twice_to_two_workers_is_claimed_once(
    broker_floor: Floor, pool: str
) -> None:
    """[Numbers] Each message twice at once to two workers: one claim each, each callable once."""
    floor, database = broker_floor, broker_floor.database
    floor.start("w1", pool=pool, concurrency=1)
    floor.start("w2", pool=pool, concurrency=1)
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
    assert attempts(floor, turn) == [0]


def test_messages_of_stages_behind_and_of_the_running_one_find_nothing_to_claim(
    floor: Floor,
) -> None:
    """[DESIGN 6] After next publish, before ack: the redelivery, with the whole chain in it, is cut."""
    database = floor.database
    floor.start(pool="threads", concurrency=4)
    turn = at_the_door(floor, "s1")

    for stage in STAGES:
        floor.publish(turn, stage)
    wait_for(lambda: floor.logs().count('"not claimed"') >= len(STAGES), 10, "seven refusals")
    floor.open_door("work-s1-0")
    floor.assert_settled_once(turn, "s1")
    for stage in STAGES:
        floor.publish(turn, stage)
    wait_for(lambda: floor.logs().count('"reason": "done"') >= len(STAGES), 10, "seven more")

    assert database.claims(turn) == ONE_CLAIM_EACH
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
    assert attempts(floor, turn) == [0]
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


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_the_sessions_next_turn_starts_although_nobody_admitted_it_after_the_first(
    floor: Floor, pool: str
) -> None:
    """[DESIGN 6] After settle, before admit: next still queued, the sweep."""
    database = floor.database
    first = floor.start("w1", pool=pool, concurrency=1)
    with database.hand_over_gate("persist") as gate:
        turn, following = floor.enqueue("s1"), floor.enqueue("s1")
        gate.freeze_and_let_commit()
        assert database.stands(turn, stage="compact", status="awaiting-input")
        assert database.stands(following, status="queued")
        first.kill()

        floor.start("w2", pool=pool, concurrency=2)

        assert following.result(SWEPT).turn_index == 1
        floor.assert_settled_once(following, "s1", index=1)
        wait_for(lambda: database.stands(turn, stage="done"), REWAKE + SWEPT, "the first's compact")
    assert attempts(floor, turn) == [0]


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
