"""Was the session saved by the same definition?"""

from __future__ import annotations

from typing import Any

import pytest

from tests.orchestrator_core.builders import World, bump, counter
from turnchain.orchestrator_core.contracts import Stage, TurnStatus
from turnchain.orchestrator_core.stages import drift
from turnchain.orchestrator_core.turn_context import TurnContext

MORE = {"intents": {"bump": bump, "more": bump}}


def drifted(*, force: bool = False, **definition: Any) -> TurnContext:
    """A turn behind its `drift`, on a session that a definition with fewer intents saved."""
    before = World(counter())
    before.execute()
    world = before.serving(counter(**MORE, **definition))
    return drift.run(world.at(Stage.DRIFT, force=force), world.env)


def test_the_same_definition_has_not_drifted() -> None:
    world = World(counter())
    world.execute()

    turn = drift.run(world.at(Stage.DRIFT), world.env)

    assert turn.work.outcome is None
    (event,) = turn.events
    assert event.type == "orchestrator.drift.checked"
    assert event.payload == {
        "sessionId": "s1",
        "signature": world.signature,
        "drifted": False,
    }


def test_a_new_session_never_drifted() -> None:
    """[O 2.3.1, O 16.1 23]."""
    world = World(counter(**MORE))

    turn = drift.run(world.at(Stage.DRIFT), world.env)

    assert turn.work.outcome is None
    assert turn.events[0].payload["drifted"] is False


def test_another_definitions_session_is_refused() -> None:
    """[O 2.3.3, O 16.1 21]."""
    turn = drifted()

    outcome = turn.work.outcome
    assert outcome is not None
    assert outcome.status is TurnStatus.FAILED
    assert outcome.error is not None
    assert outcome.error["code"] == "ORCHESTRATOR_DRIFT"
    assert outcome.error["context"] == {
        "session_id": "s1",
        "saved_signature": World(counter()).signature,
        "current_signature": turn.signature,
    }
    assert turn.events[0].payload["drifted"] is True


def test_force_goes_on_and_the_check_is_told_all_the_same() -> None:
    """[O 2.3.2, O 2.3.4]."""
    turn = drifted(force=True)

    assert turn.work.outcome is None
    assert turn.events[0].payload == {
        "sessionId": "s1",
        "signature": turn.signature,
        "drifted": True,
    }


@pytest.mark.parametrize(
    "on_drift", ["accept", lambda drift: drift.state], ids=["accept", "migrate"]
)
def test_a_definition_may_go_on_by_itself(on_drift: Any) -> None:
    """[DESIGN 5]."""
    assert drifted(on_drift=on_drift).work.outcome is None


def test_a_turn_that_was_taken_over_is_set_aside_instead() -> None:
    """[DESIGN 5] It began under the former definition; a person decides."""
    before = World(counter())
    before.execute()
    world = before.serving(counter(**MORE))
    world.inside(world.ready(Stage.DRIFT))
    (wake,) = world.drain()

    turn = drift.run(world.inside(wake), world.env)

    assert turn.work.outcome is not None
    assert turn.work.outcome.status is TurnStatus.QUARANTINED


def test_version_and_bodies_are_no_drift() -> None:
    """[O 4.3.6]."""
    before = World(counter(version="1"))
    before.execute()
    world = before.serving(counter(version="2", route=lambda ctx: "bump"))

    assert drift.run(world.at(Stage.DRIFT), world.env).work.outcome is None
