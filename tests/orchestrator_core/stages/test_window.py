"""How much of the history each role sees."""

from __future__ import annotations

from typing import Any

import pytest

from tests.orchestrator_core.builders import HISTORY5, World, a_provider, counter
from turnchain.orchestrator_core.contracts import Message, Stage, TurnStatus
from turnchain.orchestrator_core.definition import HistoryWindow
from turnchain.orchestrator_core.errors import OrchestratorConfigError
from turnchain.orchestrator_core.stages import window
from turnchain.orchestrator_core.stages.window import windowed
from turnchain.orchestrator_core.turn_context import TurnContext

THIRTY = tuple(Message(role="user", content=n) for n in range(30))


def last_two(history: Any) -> Any:
    return history[-2:]


def first_three(history: Any) -> Any:
    return history[:3]


@pytest.mark.parametrize(
    ("roles", "sizes"),
    [
        ({}, (5, 15)),
        ({"router": 5}, (5, 15)),
        ({"router": 20, "agents": 10}, (20, 10)),
        ({"router": last_two}, (2, 15)),
        ({"agents": 0}, (5, 0)),
        ({"agents": -1}, (5, 0)),
        ({"router": 0}, (0, 15)),
        ({"router": -1}, (0, 15)),
        ({"agents": first_three}, (5, 3)),
        ({"router": 99, "agents": 30}, (30, 30)),
    ],
)
def test_windows_are_independent(roles: dict[str, Any], sizes: tuple[int, int]) -> None:
    """[O 6.2.4, O 16.5 T22] Each from the full history."""
    slices = windowed(THIRTY, HistoryWindow(**roles))

    assert (len(slices.router), len(slices.agents)) == sizes


def test_a_window_is_the_last_messages_in_order() -> None:
    slices = windowed(THIRTY, HistoryWindow(router=2, agents=first_three))

    assert [message.content for message in slices.router] == [28, 29]
    assert [message.content for message in slices.agents] == [0, 1, 2]


def test_a_slicer_may_make_messages() -> None:
    made: Any = [{"role": "system", "content": "x"}]

    slices = windowed((), HistoryWindow(router=lambda history: made))

    assert slices.router == (Message(role="system", content="x"),)


@pytest.mark.parametrize(
    "slicer",
    [
        lambda history: 1 / 0,
        lambda history: None,
        lambda history: "text",
        lambda history: [{"content": "no role"}],
    ],
)
@pytest.mark.parametrize("role", ["router", "agents"])
def test_a_slicer_that_fails_is_named(role: str, slicer: Any) -> None:
    """[O 6.2.7]."""
    with pytest.raises(OrchestratorConfigError, match=rf"history_window\.{role}") as refused:
        windowed(THIRTY, HistoryWindow(**{role: slicer}))

    assert refused.value.category == "validation"


def cut(world: World, **arguments: Any) -> TurnContext:
    """A turn behind its `window`."""
    return window.run(world.at(Stage.WINDOW, **arguments), world.env)


@pytest.mark.parametrize(("roles", "count"), [({}, 5), ({"agents": 2}, 2)])
def test_the_event_counts_the_agents_slice(roles: dict[str, Any], count: int) -> None:
    """[O 6.2.2, O 16.1 11]."""
    world = World(counter(history_window=HistoryWindow(**roles)))

    turn = cut(world, history=HISTORY5)

    (event,) = turn.events
    assert event.type == "orchestrator.history.windowed"
    assert event.payload == {"sessionId": "s1", "messageCount": count}


def test_a_providers_history_is_cut_and_not_kept_whole() -> None:
    world = World(
        counter(
            providers={"provider": lambda asked: HISTORY5}, history_window=HistoryWindow(router=1)
        )
    )

    turn = cut(world, history=a_provider())

    assert turn.work.windows is not None
    assert [message.content for message in turn.work.windows.router] == ["message 4"]
    assert len(turn.work.windows.agents) == 5
    assert turn.work.history == ()


def test_a_slicer_that_fails_fails_its_turn() -> None:
    world = World(counter(history_window=HistoryWindow(agents=lambda history: 1 / 0)))  # pyright: ignore[reportArgumentType]

    outcome = cut(world).work.outcome

    assert outcome is not None
    assert outcome.status is TurnStatus.FAILED
    assert outcome.error is not None
    assert outcome.error["code"] == "ORCHESTRATOR_CONFIG"
    assert "ZeroDivisionError" in outcome.error["message"]
