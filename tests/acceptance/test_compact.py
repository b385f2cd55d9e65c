"""A pool process dies inside compact, when the answer is out. [DESIGN 6, crash walk]"""

from __future__ import annotations

import pytest

from tests.acceptance.database import wait_for
from tests.acceptance.harness import CHILD, Floor, both_modes
from turnchain import Turn

pytestmark = pytest.mark.acceptance

HOLD = "SELECT FROM turnchain_checkpoints WHERE session_id = 's1' AND turn_index = 0 FOR UPDATE"
"""What compact deletes when the session's second turn is settled, since one is kept."""


def second_turn_in_compact(floor: Floor) -> tuple[Turn, int]:
    """The session's second turn, and the child that waits in its compact."""
    turn = floor.enqueue("s1")
    wait_for(lambda: floor.database.somebody_waits("turnchain_checkpoints"), 10, "compact")
    child = floor.database.owner(turn)
    assert child
    return turn, child


@both_modes
def test_a_result_is_out_before_compact_and_a_killed_compact_is_done_elsewhere(
    floor: Floor,
) -> None:
    """[DESIGN 6] Inside compact: final status, owned; the turn is done by somebody else."""
    database = floor.database
    floor.start(concurrency=2)
    floor.enqueue("s1").result(10)
    wait_for(lambda: database.checkpoints("s1") == [0], 5, "the first turn")
    with database.held(HOLD):
        turn, child = second_turn_in_compact(floor)
        assert turn.result(5).status == "awaiting-input"
        assert floor.enqueue("s1").result(5).turn_index == 2, "the session is free already"

        killed_at = floor.kill(child)
        database.wait_until_claimed(turn, killed_at, CHILD)

    wait_for(lambda: database.stands(turn, stage="done", status="awaiting-input"), 10, "done")
    assert database.turn(turn)["takeovers"] == 1
    assert database.events(turn).count("orchestrator.turn.awaiting-input") == 1
    wait_for(lambda: database.checkpoints("s1") == [2], 10, "retention")


@both_modes
def test_a_compact_that_keeps_killing_its_worker_ends_done_and_says_that_it_failed(
    floor: Floor,
) -> None:
    """[DESIGN 6] Inside compact: at most `max_attempts`, then done with `compaction.failed`; the answer stands."""
    database = floor.database
    floor.start(concurrency=2)
    floor.enqueue("s1").result(10)
    with database.held(HOLD):
        turn, child = second_turn_in_compact(floor)
        for _ in range(2):
            killed_at = floor.kill(child)
            database.wait_until_claimed(turn, killed_at, CHILD)
            child = database.owner(turn)
            assert child
        floor.kill(child)
        wait_for(lambda: database.stands(turn, stage="done"), 5, "the end")

        assert database.turn(turn)["status"] == "awaiting-input"
        assert database.events(turn)[-1] == "orchestrator.compaction.failed"
        assert turn.result(5).ok
    assert database.turn(turn)["attempts"] == 3
    assert floor.enqueue("s1").result(10).turn_index == 2
