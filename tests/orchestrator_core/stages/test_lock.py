"""Do not build on history that is being compacted, but do not wait for ever either."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.orchestrator_core.builders import POLICY, SECOND, World, counter
from turnchain.orchestrator_core.contracts import Stage
from turnchain.orchestrator_core.stages import lock
from turnchain.orchestrator_core.turn_context import Park, TurnContext

MAX_WAIT = POLICY.lock_max_wait


@pytest.mark.parametrize(
    ("held_for", "waits", "wait"),
    [
        (None, 0, None),
        (None, 1, None),
        (2 * SECOND, 0, 2 * SECOND),
        (MAX_WAIT, 0, MAX_WAIT),
        (timedelta(minutes=1), 0, MAX_WAIT),
        (timedelta(minutes=1), 1, None),
    ],
)
def test_a_turn_waits_once_as_long_as_the_lock_or_as_it_may(
    held_for: timedelta | None, waits: int, wait: timedelta | None
) -> None:
    """[O 5.4]."""
    assert lock.decide(held_for, waits, MAX_WAIT) == wait


def at_the_lock(world: World) -> TurnContext:
    world.execute()
    return world.at(Stage.LOCK)


def test_a_free_session_is_passed_without_a_word() -> None:
    world = World(counter())
    turn = at_the_lock(world)

    assert lock.run(turn, world.env) is turn


def test_a_turn_parks_behind_a_compaction_and_begins_again() -> None:
    """[O 15.1 G6] At `load`, since what it read may have changed."""
    world = World(counter())
    turn = at_the_lock(world)
    world.compacts(2 * SECOND)

    parked = lock.run(turn, world.env)

    assert isinstance(parked, Park)
    assert (parked.reason, parked.wait, parked.stage) == ("compaction", 2 * SECOND, Stage.LOAD)
    assert parked.work == turn.work.model_copy(update={"lock_waits": 1})


def test_a_turn_that_waited_says_so_and_goes_on_whatever_holds_the_lock() -> None:
    """[O 5.4] A summarizer that hangs must not block a session."""
    world = World(counter())
    turn = at_the_lock(world).found(lock_waits=1)
    world.compacts(timedelta(hours=1))

    passed = lock.run(turn, world.env)

    assert isinstance(passed, TurnContext)
    assert [event.type for event in passed.events] == ["orchestrator.lock.waiting"]
    assert passed.events[0].payload["sessionId"] == "s1"


def test_another_sessions_compaction_is_nobodys_business() -> None:
    world = World(counter())
    world.execute(session="s2")
    turn = at_the_lock(world)
    world.compacts(timedelta(hours=1), session="s2")

    assert lock.run(turn, world.env) is turn
