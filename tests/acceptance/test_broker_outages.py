"""The broker forgets everything, or is away. [DESIGN 6, crash walk: message lost, FLUSHALL, broker down at a hop]"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import pytest
import redis

from tests.acceptance.conftest import floor_on
from tests.acceptance.database import wait_for
from tests.acceptance.harness import ONE_CLAIM_EACH, REWAKE, SWEPT, Floor, effects_of, inline, pools
from turnchain import Turn
from turnchain.workers.embedded import Server, start_valkey, temporary_directory

pytestmark = pytest.mark.acceptance


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
def own_floor(database_url: str, broker: Broker, chain_mode: str) -> Generator[Floor]:
    """A floor on that broker."""
    with floor_on(database_url, broker.server.url, "own:", chain_mode=chain_mode) as floor:
        yield floor


def test_messages_that_a_flush_swallows_are_published_again(
    own_floor: Floor, broker: Broker
) -> None:
    """[DESIGN 6] FLUSHALL: ready, rewake, no attempt."""
    turns = [own_floor.enqueue("s1"), own_floor.enqueue("s2")]
    broker.flush()

    own_floor.start(pool="threads")

    for turn in turns:
        assert turn.result(REWAKE + SWEPT).ok
        assert own_floor.database.attempts(turn) == {0}


@pools(inline=["prefork"])
def test_a_turn_goes_on_through_a_flush_and_later_turns_find_their_queue(
    own_floor: Floor, broker: Broker, pool: str
) -> None:
    """[DESIGN 6] FLUSHALL under a running worker: bindings are gone, too, and nothing may depend on them."""
    own_floor.start(pool=pool)
    turn = own_floor.at_the_door("s1")

    broker.flush()
    own_floor.open_door("work-s1-0")

    assert turn.result(REWAKE + SWEPT).ok
    own_floor.assert_settled_once(turn, "s1")
    assert own_floor.database.claims(turn) == own_floor.undisturbed
    assert own_floor.database.attempts(turn) == {0}
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
    turn = own_floor.at_the_door("s1")

    broker.server.stop()
    own_floor.open_door("work-s1-0")
    wait_for(lambda: database.stands(turn, stage="persist", lease_owner=None), 5, "the hand-over")
    stays_down(own_floor, turn, down)
    broker.restart()

    own_floor.assert_settled_once(turn, "s1")
    assert database.claims(turn) == ONE_CLAIM_EACH
    assert own_floor.database.attempts(turn) == {0}
    assert database.turn(turn)["takeovers"] == 0
    assert database.effects(turn) == effects_of(1)


@inline
def test_a_turn_in_place_is_answered_without_the_broker_and_the_next_one_with_its_return(
    own_floor: Floor, broker: Broker
) -> None:
    """[ADR 0016] Nothing is published on its way; what is accepted meanwhile waits in the row."""
    own_floor.start(pool="threads")
    turn = own_floor.at_the_door("s1")

    broker.server.stop()
    own_floor.open_door("work-s1-0")
    own_floor.assert_settled_once(turn, "s1")
    following = own_floor.accept("s1")
    broker.restart()

    assert own_floor.database.claims(turn) == own_floor.undisturbed
    assert own_floor.database.attempts(turn) == {0}
    assert following.result(10).turn_index == 1


def stays_down(floor: Floor, turn: Turn, seconds: int) -> None:
    """Wait so long by the database's clock, in which the turn must not move; at least for one failed publish."""
    since = floor.database.now()
    wait_for(lambda: "not published" in floor.logs() or "refused" in floor.logs(), 10, "a failure")
    wait_for(
        lambda: (floor.database.now() - since).total_seconds() >= seconds, seconds + 5, "the outage"
    )
    assert floor.database.stands(turn, stage="persist", lease_owner=None, fence=0, attempts=0)
