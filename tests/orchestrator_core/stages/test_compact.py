"""What comes after the answer is out."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from tests.orchestrator_core.builders import World, counter
from turnchain.orchestrator_core.contracts import SessionKey, Stage
from turnchain.orchestrator_core.stages.compact import prune_bound
from turnchain.stores.memory import MemoryCheckpoints


class Pruning(MemoryCheckpoints):
    """Checkpoints that tell when they were asked to prune."""

    asked: list[tuple[str, int]]

    def prune(self, session: SessionKey, *, keep_before: int) -> None:
        self.asked.append((session.session_id, keep_before))
        super().prune(session, keep_before=keep_before)


def played(turns: int, keep: int | Literal["all"]) -> tuple[World, list[Any]]:
    """So many turns of a session, and what was asked to be pruned."""
    world = World(counter(keep_snapshots=keep))
    checkpoints = Pruning(world.stores.tables)
    checkpoints.asked = []
    world.using(checkpoints=checkpoints)
    for _ in range(turns):
        world.play(world.admitted())
    return world, checkpoints.asked


def kept(world: World) -> list[int]:
    records = world.stores.checkpoints.load_range(world.session(), first=0, last=99)
    return [record.turn_index for record in records]


@pytest.mark.parametrize(
    ("turn_index", "keep", "bound"), [(0, 1, 0), (1, 1, 1), (11, 3, 9), (2, 100, -97)]
)
def test_the_bound_is_an_index(turn_index: int, keep: int, bound: int) -> None:
    """[O 0.3 X4, O 2.7.4]."""
    assert prune_bound(turn_index, keep) == bound


def test_as_many_turns_are_kept_as_the_definition_says() -> None:
    """[O 16.5 T3]."""
    world, _ = played(12, 3)

    assert kept(world) == [9, 10, 11]


def test_nothing_is_pruned_before_there_is_too_much() -> None:
    """[O 16.1 29]."""
    assert played(1, 1)[1] == []
    assert played(2, 1)[1] == [("s1", 1)]
    assert played(3, "all")[1] == []


def test_a_turn_that_failed_prunes_nothing() -> None:
    """[O 2.6.2] It has no index to prune by."""
    world, asked = played(2, 1)
    asked.clear()
    failing = world.serving(counter(keep_snapshots=1, intents={"bump": lambda ctx: 1 / 0}))
    failing.using(checkpoints=world.env.checkpoints)

    failing.play(failing.admitted(force=True))

    assert asked == []
    assert kept(world) == [1]


@pytest.mark.parametrize("definition", [counter(), counter(intents={"bump": lambda ctx: 1 / 0})])
def test_the_snapshot_goes_with_the_turn(definition: Any) -> None:
    """[O 0.3 X23, O 16.5 T29] Settled well or not."""
    world = World(definition)
    wake = world.ready(Stage.COMPACT)
    assert world.stores.snapshots.list() == [wake.turn_id]

    world.run(wake)

    assert world.stores.snapshots.list() == []
    assert world.turn(wake).stage is Stage.DONE
