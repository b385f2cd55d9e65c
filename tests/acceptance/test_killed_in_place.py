"""A pool process or a worker is killed with turns that it calls in place from stage to stage. [DESIGN 6, ADR 0016]"""

from __future__ import annotations

import contextlib

import pytest

from tests.acceptance.database import wait_for
from tests.acceptance.harness import CHILD, WHOLE_WORKER, Floor, effects_of, inline
from tests.acceptance.places import COMPACTS, KEPT, ROW, WRITES, six_places
from turnchain import Provider

pytestmark = [pytest.mark.acceptance, inline]

WRITE_GATES = {
    "the claim": "OLD.lease_owner IS NULL AND NEW.lease_owner IS NOT NULL AND NEW.fence = 0",
    "the run's record": "OLD.stage = 'load' AND NEW.stage = 'dispatch'",
    "an iteration": "OLD.stage = NEW.stage AND OLD.event_seq <> NEW.event_seq",
    "the outcome": "OLD.stage = 'dispatch' AND NEW.stage = 'compact'",
    "the end": "NEW.stage = 'done'",
}
"""All that an undisturbed turn of two iterations writes to its row, beside its steps and the other iteration."""


def test_a_child_killed_behind_each_of_its_writes_costs_nothing_that_was_written(
    floor: Floor,
) -> None:
    """[ADR 0016] Nothing that is never put off is done twice: what the row says is where the next one goes on."""
    database = floor.database
    floor.start(concurrency=2)
    with contextlib.ExitStack() as stack:
        gates = {
            name: stack.enter_context(database.gate(condition))
            for name, condition in WRITE_GATES.items()
        }
        turn = floor.enqueue("s1", ["work", "work"], history=Provider(name="history"))

        for name, gate in gates.items():
            killed_at = floor.kill(gate.freeze_and_let_commit())
            if name != "the end":
                database.wait_until_claimed(turn, killed_at, CHILD)

        floor.assert_settled_once(turn, "s1")
    assert database.claims(turn) == [
        ("load", 0), ("load", 1), ("dispatch", 2), ("dispatch", 3), ("compact", 4),
    ]  # fmt: skip
    assert len(database.visits("s1", "history")) == 1
    assert [row["iteration"] for row in database.visits("s1", "work")] == [0, 1]
    assert database.effects(turn) == effects_of(2)
    assert max(database.attempts(turn)) == 1


def test_a_child_killed_in_each_place_of_one_turn_costs_what_is_pure_or_the_open_iteration(
    floor: Floor,
) -> None:
    """[DESIGN 1.3, ADR 0016] Before the first call, all that was pure is repeated; later, what had settled is not."""
    database = floor.database
    floor.start(concurrency=2)
    floor.assert_settled_once(floor.enqueue("s1"), "s1")
    for door in ("history-s1", "window", "work-s1-1", "end-s1"):
        floor.close_door(door)
    with database.held(KEPT, "s1"):
        turn = floor.enqueue("s1", ["work", "work"], history=Provider(name="history"))
        for session, what, iteration, door in (
            ("s1", "history", 0, "history-s1"),
            ("", "window", 0, "window"),
            ("s1", "work", 1, "work-s1-1"),
            ("s1", "end", 2, "nobody's"),
        ):
            visit = wait_for(lambda: database.visit(turn, session, what, iteration), 10, what)  # noqa: B023
            if what == "work":
                database.wait_until_finished(turn, "1:work:before")
            killed_at = floor.kill(visit["pid"])
            database.wait_until_claimed(turn, killed_at, CHILD)
            floor.open_door(door)

        wait_for(lambda: database.visit(turn, "s1", "end", 2), 10, "the end, once more")
        with database.held(ROW, turn.turn_id):
            floor.open_door("end-s1")
            wait_for(lambda: database.somebody_waits(WRITES), 10, "the outcome")
            owner = database.owner(turn)
            assert owner
            floor.kill(owner)
        # The server had the transaction, and carries it out; only the lease tells now that its process is gone.
        wait_for(lambda: database.stands(turn, stage="compact"), 5, "the commit")
        database.wait_until_claimed(turn, database.now(), WHOLE_WORKER)
        wait_for(lambda: database.somebody_waits(COMPACTS), 10, "compact")
        owner = database.owner(turn)
        assert owner
        killed_at = floor.kill(owner)
        database.wait_until_claimed(turn, killed_at, CHILD)

    floor.assert_settled_once(turn, "s1", index=1)
    assert database.claims(turn) == [
        ("load", 0), ("load", 1), ("load", 2), ("dispatch", 3), ("dispatch", 4), ("compact", 5), ("compact", 6),
    ]  # fmt: skip
    assert len(database.visits("s1", "history")) == 3, "its own death, and that of the window"
    runs = [row["iteration"] for row in database.visits("s1", "work")]
    assert runs == [0, 0, 1, 1], "of the second turn, iteration 0 ran once and iteration 1 twice"
    assert database.effects(turn) == effects_of(2)


CUT = {
    "load": (["load", "load"], [0, 1]),
    "window": (["load", "load"], [0, 1]),
    "call": (["load", "dispatch"], [0, 1, 1]),
    "end": (["load", "dispatch"], [0, 1]),
    "outcome": (["load", "compact"], [0, 1]),
    "compact": (["load", "compact"], [0, 0, 1]),
}
"""By place, where a turn is claimed and which iterations are run; the session of compact had a turn before."""


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_whatever_a_killed_worker_had_in_place_goes_on_within_lease_and_sweep(
    floor: Floor, pool: str
) -> None:
    """[DESIGN 6] Whole worker gone, with a turn in each place; what the server was told already, it carries out."""
    database = floor.database
    first = floor.start("w1", pool=pool, concurrency=6)
    with six_places(floor) as places:
        floor.start("w2", pool="threads", concurrency=6)
        places.send_outcome()

        first.kill()
        killed_at = places.release()

        for turn in places.turns.values():
            database.wait_until_claimed(turn, killed_at, WHOLE_WORKER)
        places.open_doors()
    for place, turn in places.turns.items():
        floor.assert_settled_once(turn, place, index=int(place == "compact"))
        stages, iterations = CUT[place]
        assert database.claims(turn) == [(stages[0], 0), (stages[1], 1)]
        assert [row["iteration"] for row in database.visits(place, "work")] == iterations
        assert database.effects(turn) == effects_of(2)
        assert max(database.attempts(turn)) == 1
        assert database.turn(turn)["takeovers"] == 1
