"""In place where the worker serves the next stage too, and by the broker where it does not. [DESIGN 5, Chain modes]"""

from __future__ import annotations

import pytest

from tests.acceptance.database import wait_for
from tests.acceptance.harness import CHILD, WHOLE_WORKER, Floor, effects_of, inline
from turnchain import Provider

pytestmark = [pytest.mark.acceptance, inline]

MODELS = {"stage_queues": "dispatch=models"}


@pytest.mark.parametrize("pool", ["prefork", pytest.param("threads", marks=pytest.mark.long)])
def test_a_stage_on_another_workers_queue_is_crossed_to_and_back_whoever_dies_there(
    floor: Floor, pool: str
) -> None:
    """[ADR 0016] What was put off is written before the hop; each side keeps its own stages under one claim."""
    database = floor.database
    desk = floor.start("desk", pool="threads", settings=MODELS)
    floor.start("models", pool=pool, settings=MODELS, queues="models")
    undisturbed = floor.enqueue("s1", ["work", "work"], history=Provider(name="history"))
    floor.assert_settled_once(undisturbed, "s1")
    floor.close_door("work-s2-1")
    cut = floor.enqueue("s2", ["work", "work"], history=Provider(name="history"))
    visit = wait_for(lambda: database.visit(cut, "s2", "work", 1), 10, "the second iteration")
    database.wait_until_finished(cut, "1:work:before")

    killed_at = floor.kill(visit["pid"])
    if pool == "threads":
        floor.start("models", pool=pool, settings=MODELS, queues="models")
    within = CHILD if pool == "prefork" else WHOLE_WORKER
    database.wait_until_claimed(cut, killed_at, within)
    floor.open_door("work-s2-1")
    floor.assert_settled_once(cut, "s2")

    assert database.claims(undisturbed) == [("load", 0), ("dispatch", 0), ("persist", 0)]
    assert database.claims(cut) == [("load", 0), ("dispatch", 0), ("dispatch", 1), ("persist", 1)]
    assert [row["iteration"] for row in database.visits("s2", "work")] == [0, 1, 1]
    assert {row["pid"] for row in database.visits("s1", "history")} == {desk.running.pid}
    assert desk.running.pid not in {row["pid"] for row in database.visits("s1", "work")}
    for turn in (undisturbed, cut):
        assert database.effects(turn) == effects_of(2)
