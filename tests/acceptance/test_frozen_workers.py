"""A worker is stopped in the middle of something and goes on much later. [DESIGN 6, crash walk: SIGSTOP]"""

from __future__ import annotations

import contextlib

import pytest

from tests.acceptance.database import wait_for
from tests.acceptance.harness import (
    REWAKE,
    SWEPT,
    WHOLE_WORKER,
    Floor,
    effects_of,
    freeze,
    inline,
    thaw,
)
from tests.acceptance.places import six_places
from turnchain.stores.postgres import connect

pytestmark = pytest.mark.acceptance


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_worker_frozen_outside_a_transaction_is_taken_over_and_refused_when_it_wakes(
    floor: Floor, pool: str
) -> None:
    """[DESIGN 6] SIGSTOP outside a transaction: the sweep takes over; on waking its writes are refused."""
    database = floor.database
    first = floor.start("w1", pool=pool)
    floor.close_door("work-s1-1")
    turn = floor.enqueue("s1", ["work", "work"])
    database.wait_until_finished(turn, "1:work:before")
    floor.start("w2", pool=pool)

    stopped_at = database.now()
    freeze(first)

    database.wait_until_claimed(turn, stopped_at, WHOLE_WORKER)
    floor.open_door("work-s1-1")
    floor.assert_settled_once(turn, "s1")
    thaw(first)
    wait_for(lambda: '"moved-on"' in first.log.read_text(), 10, "the woken worker's refusal")
    assert [row["iteration"] for row in database.visits("s1", "work")] == [0, 1, 1]
    assert database.effects(turn) == effects_of(2)
    assert database.turn(turn)["takeovers"] == 1
    assert floor.enqueue("s1").result(10).turn_index == 1


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_what_a_woken_worker_writes_is_refused_by_the_server_itself(
    floor: Floor, pool: str
) -> None:
    """[DESIGN 5] Every write guards on fence and owner: between user code and hand-over nobody looks at the clock."""
    database = floor.database
    first = floor.start("w1", pool=pool)
    floor.close_door("window")
    turn = floor.enqueue("s1")
    wait_for(lambda: database.visit(turn, "", "window", 0), 10, "the worker at the door")
    floor.start("w2", pool=pool)
    stopped_at = database.now()
    freeze(first)
    database.wait_until_claimed(turn, stopped_at, WHOLE_WORKER)
    floor.open_door("window")
    floor.assert_settled_once(turn, "s1")
    history = database.history(turn)

    thaw(first)

    wait_for(lambda: '"moved-on"' in first.log.read_text(), 10, "the woken worker's refusal")
    assert floor.enqueue("s1").result(10).turn_index == 1
    assert database.history(turn) == history, "nothing has moved the turn since"
    assert database.events(turn).count("orchestrator.history.windowed") == 1


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_worker_frozen_while_the_server_carries_out_its_unit_has_settled_its_turn_once(
    floor: Floor, pool: str
) -> None:
    """[DESIGN 6] SIGSTOP inside a transaction: it went to the server in one piece, which ends it without the client."""
    database = floor.database
    first = floor.start("w1", pool=pool)
    with database.hand_over_gate("persist") as gate:
        turn, following = floor.enqueue("s1"), floor.enqueue("s1")
        gate.wait()
        freeze(first)
        gate.open()
        wait_for(lambda: database.stands(turn, stage="compact", lease_owner=None), 5, "the commit")

        floor.start("w2", pool=pool)

        assert following.result(SWEPT).turn_index == 1
        wait_for(lambda: database.stands(turn, stage="done"), REWAKE + SWEPT, "compact elsewhere")
        thaw(first)
        floor.assert_settled_once(following, "s1", index=1)
    assert database.turn(turn)["takeovers"] == 0
    assert database.events(turn).count("orchestrator.turn.awaiting-input") == 1
    assert database.effects(turn) == effects_of(1)


@inline
@pytest.mark.parametrize("pool", ["threads", pytest.param("prefork", marks=pytest.mark.long)])
def test_a_worker_frozen_with_a_turn_in_each_place_has_nothing_left_to_write_when_it_wakes(
    floor: Floor, pool: str
) -> None:
    """[ADR 0016] What was put off is lost with the lease; from the outcome on nobody looks at the clock any more."""
    database = floor.database
    first = floor.start("w1", pool=pool, concurrency=6)
    with six_places(floor) as places:
        floor.start("w2", pool="threads", concurrency=6)
        places.send_outcome()
        freeze(first)
        stopped_at = places.release()
        for turn in places.turns.values():
            database.wait_until_claimed(turn, stopped_at, WHOLE_WORKER)
        places.open_doors()
        for place, turn in places.turns.items():
            floor.assert_settled_once(turn, place, index=int(place == "compact"))
        histories = {place: database.history(turn) for place, turn in places.turns.items()}

        thaw(first)

        refused = len(places.turns)
        wait_for(lambda: first.log.read_text().count('"moved-on"') == refused, 10, "six refusals")
    for place, turn in places.turns.items():
        assert database.history(turn) == histories[place], "nothing has moved the turn since"
        assert database.effects(turn) == effects_of(2)
        floor.assert_settled_once(turn, place, index=int(place == "compact"))
    assert floor.enqueue("call").result(10).turn_index == 1


@pytest.mark.long
def test_a_client_that_stops_inside_a_transaction_holds_the_others_no_longer_than_the_server_lets_it(
    floor: Floor,
) -> None:
    """[DESIGN 6] SIGSTOP inside a transaction: the server ends it (10 s), then everybody goes on."""
    database = floor.database
    floor.start(pool="threads")
    floor.close_door("work-s1-0")
    turn = floor.enqueue("s1")
    wait_for(lambda: database.effects(turn) == ["0:work:before"], 10, "the worker at the door")
    stores = connect(database.url)
    with contextlib.closing(stores), stores.connections._borrowed(durable=True) as stopped:
        # As a connection of ours in a process that was frozen here.
        stopped.execute("BEGIN")
        stopped.execute("SELECT FROM turnchain_admission FOR UPDATE")
        stopped.execute("SELECT FROM turnchain_turns FOR UPDATE")
        waiting = floor.accept("s2")
        floor.open_door("work-s1-0")

        assert waiting.result(10 + WHOLE_WORKER + SWEPT).ok

    floor.assert_settled_once(turn, "s1")
    assert database.effects(turn) == effects_of(1)
