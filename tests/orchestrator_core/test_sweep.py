"""One pass over the turns that nobody looks after."""

from __future__ import annotations

from datetime import timedelta

from tests.orchestrator_core.builders import SECOND, World, counter
from turnchain.orchestrator_core.contracts import Stage, TurnStatus, Wake
from turnchain.orchestrator_core.environment import Policy
from turnchain.orchestrator_core.sweep import SweepPolicy, sweep

NUMBERS = SweepPolicy()
POLICY = Policy(max_in_flight=1)


def swept(world: World, policy: Policy = POLICY) -> list[Wake]:
    """A sweep that was due."""
    world.clock.moves(NUMBERS.interval)
    wakes = sweep(world.ledger, policy, NUMBERS)
    assert wakes is not None
    return wakes


def world() -> World:
    """A world that has been swept before, so that nobody gets grace."""
    made = World(counter())
    sweep(made.ledger, POLICY, NUMBERS)
    return made


def test_within_the_interval_one_caller_sweeps() -> None:
    """[DESIGN 6, Sweep] Ten processes that call it make no difference."""
    now = World(counter())

    assert [sweep(now.ledger, POLICY, NUMBERS) for _ in range(3)] == [[], None, None]
    now.clock.moves(NUMBERS.interval - SECOND)
    assert sweep(now.ledger, POLICY, NUMBERS) is None
    now.clock.moves(SECOND)
    assert sweep(now.ledger, POLICY, NUMBERS) == []


def test_an_expired_turn_is_published_once_under_its_next_fence() -> None:
    """Taken over, and ready: still one message."""
    now = world()
    claim = now.at(Stage.LOAD).claim
    taken = Wake(turn_id=claim.turn.turn_id, stage=Stage.LOAD, fence=1)

    assert [swept(now) for _ in range(4)] == [[], [], [], [taken]]

    assert now.turn(claim.wake).attempts == 1
    assert swept(now) == [taken], "nobody claimed it since"
    assert now.turn(claim.wake).fence == 1


def test_a_turn_is_published_once_however_often_it_is_found() -> None:
    """With no time for a message to arrive, what was taken over a moment ago is due again."""
    now = world()
    claim = now.at(Stage.LOAD).claim
    now.clock.moves(now.env.policy.lease)
    impatient = SweepPolicy(interval=NUMBERS.interval, rewake_first=timedelta(0))

    wakes = sweep(now.ledger, POLICY, impatient)

    assert wakes == [Wake(turn_id=claim.turn.turn_id, stage=Stage.LOAD, fence=1)]


def test_a_ready_turn_that_nobody_claims_is_published_again() -> None:
    now = world()
    wake = now.admitted()

    assert swept(now) == [wake]
    assert swept(now) == []
    assert swept(now) == [wake]


def test_a_turn_that_was_never_published_is_admitted() -> None:
    """[DESIGN 6] Whoever enqueued it died before it could admit."""
    now = world()
    turn_id = now.accepted()

    assert swept(now) == [Wake(turn_id=turn_id, stage=Stage.LOAD, fence=0)]


def test_what_a_deadline_ends_makes_room_in_the_same_pass() -> None:
    now = world()
    late = now.admitted(deadline=now.clock.instant + SECOND)
    behind = now.accepted()

    wakes = swept(now)

    assert now.turn(late).status is TurnStatus.FAILED
    assert wakes[-1] == Wake(turn_id=behind, stage=Stage.LOAD, fence=0)


def test_what_is_given_up_makes_room_in_the_same_pass() -> None:
    """[DESIGN 6, Attempts] `dead` frees the session."""
    now = world()
    policy = Policy(max_in_flight=1, max_attempts=1, lease=timedelta(seconds=1))
    now.using(policy=policy)
    doomed = now.at(Stage.LOAD).claim.wake
    behind = now.accepted()

    wakes = swept(now, policy)

    assert now.turn(doomed).status is TurnStatus.DEAD
    assert wakes == [Wake(turn_id=behind, stage=Stage.LOAD, fence=0)]
