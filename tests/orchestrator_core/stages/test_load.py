"""Which turn of the session this is, and what it builds on."""

from __future__ import annotations

from typing import Any

import pytest

from tests.orchestrator_core.builders import HISTORY5, Crash, World, a_provider, counter
from turnchain.orchestrator_core.callbacks import ProviderContext
from turnchain.orchestrator_core.contracts import Outcome, Stage, TurnStatus
from turnchain.orchestrator_core.errors import CancelRequested
from turnchain.orchestrator_core.stages import load
from turnchain.orchestrator_core.turn_context import TurnContext


def loaded(world: World, **arguments: Any) -> TurnContext:
    """A turn behind its `load`."""
    return load.run(world.at(Stage.LOAD, **arguments), world.env)


def refusal(turn: TurnContext) -> dict[str, Any]:
    outcome = turn.work.outcome
    assert outcome is not None
    assert outcome.status is TurnStatus.FAILED
    assert outcome.error is not None
    return outcome.error


def test_a_new_session_begins_at_turn_0() -> None:
    """[O 2.2.2]."""
    turn = loaded(World(counter()))

    assert (turn.work.turn_index, turn.work.head_signature) == (0, None)
    assert [(event.type, event.payload) for event in turn.events] == [
        ("orchestrator.turn.starting", {"sessionId": "s1", "turnIndex": 0}),
        ("orchestrator.session.loaded", {"sessionId": "s1", "turnIndex": 0, "found": False}),
    ]


def test_a_turn_follows_the_sessions_head() -> None:
    """[O 2.2.3, O 2.2.5]."""
    world = World(counter())
    world.execute()
    world.execute()

    turn = loaded(world)

    assert (turn.work.turn_index, turn.work.head_signature) == (2, world.signature)
    assert turn.events[-1].payload == {"sessionId": "s1", "turnIndex": 2, "found": True}


def test_sessions_and_orchestrators_do_not_share_a_head() -> None:
    """[O 16.5 T14]."""
    world = World(counter())
    world.execute()
    other = world.serving(counter(name="other"))

    assert loaded(world, session="s2").work.turn_index == 0
    assert loaded(other).work.turn_index == 0


def test_running_it_twice_finds_the_same() -> None:
    world = World(counter(providers={"provider": lambda asked: HISTORY5}))
    turn = world.at(Stage.LOAD, history=a_provider())

    first, second = (load.run(turn, world.env) for _ in range(2))

    assert (first.work, first.events) == (second.work, second.events)


# -- the expected index


def test_an_index_that_others_took_meanwhile_is_a_conflict() -> None:
    """[O 15.4 G44] Accepted as the next; two turns of another owner of the index came first."""
    world = World(counter())
    wake = world.admitted(expected_turn_index=0)
    _settled_behind_its_back(world)

    turn = load.run(world.inside(wake), world.env)

    error = refusal(turn)
    assert (error["code"], error["context"]["turn_index"]) == ("TURN_CONFLICT", 1)


def test_the_expected_index_lets_its_turn_pass() -> None:
    world = World(counter())
    world.execute()

    assert loaded(world, expected_turn_index=1).work.outcome is None


def _settled_behind_its_back(world: World) -> None:
    """A checkpoint that no turn of this ledger wrote, as after a restored backup."""
    donor = World(counter())
    donor.execute()
    world.stores.tables.checkpoints.update(donor.stores.tables.checkpoints)


# -- the history


def test_a_literal_history_stays_in_the_request() -> None:
    assert loaded(World(counter()), history=HISTORY5).work.history == ()


def test_a_history_provider_is_asked_on_the_worker() -> None:
    asked: list[ProviderContext] = []

    def fetch(context: ProviderContext) -> Any:
        asked.append(context)
        return HISTORY5[:2]

    world = World(counter(providers={"chat": fetch}))

    turn = loaded(
        world, input="hi", history=a_provider("chat", limit=2), tenant="acme", user_id="u1"
    )

    assert [message.content for message in turn.work.history] == ["message 0", "message 1"]
    (context,) = asked
    assert (context.session, context.tenant, context.user_id) == (world.session(), "acme", "u1")
    assert (context.input, context.arguments) == ("hi", {"limit": 2})


def test_a_history_provider_may_be_async() -> None:
    async def fetch(context: ProviderContext) -> Any:
        return iter(HISTORY5)

    turn = loaded(World(counter(providers={"provider": fetch})), history=a_provider())

    assert len(turn.work.history) == 5


def test_an_unknown_provider_is_named_with_the_known_ones() -> None:
    world = World(counter(providers={"chat": lambda asked: []}))

    error = refusal(loaded(world, history=a_provider("chats")))

    assert error["code"] == "ORCHESTRATOR_FAILED"
    assert error["context"] == {"field": "history", "value": "chats", "known": ["chat"]}


def test_a_provider_that_raises_fails_the_turn_with_its_error_as_cause() -> None:
    def fetch(context: ProviderContext) -> Any:
        raise ConnectionError("no database")

    error = refusal(loaded(World(counter(providers={"provider": fetch})), history=a_provider()))

    assert (error["code"], error["cause"]["message"]) == ("ORCHESTRATOR_FAILED", "no database")


@pytest.mark.parametrize("value", [None, "hi", 7, [{"content": "no role"}], ["hi"]])
def test_what_a_provider_returns_is_a_history(value: Any) -> None:
    world = World(counter(providers={"provider": lambda asked: value}))

    error = refusal(loaded(world, history=a_provider()))

    assert "history" in error["message"]


@pytest.mark.parametrize("stop", [CancelRequested, Crash])
def test_a_stop_is_no_failure_of_the_provider(stop: type[BaseException]) -> None:
    def fetch(context: ProviderContext) -> Any:
        raise stop

    with pytest.raises(stop):
        loaded(World(counter(providers={"provider": fetch})), history=a_provider())


def test_a_refused_turn_keeps_its_events() -> None:
    """What happened to it is told in any case. [O 2.6.6]."""
    turn = loaded(World(counter()), history=a_provider("missing"))

    assert len(turn.events) == 2
    assert isinstance(turn.work.outcome, Outcome)
