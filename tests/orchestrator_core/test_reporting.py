"""The report tree of a turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.orchestrator_core.builders import SECOND, World, counter, walker
from turnchain.orchestrator_core.callbacks import END, AgentResult, IntentContext
from turnchain.orchestrator_core.contracts import ReportNode, TurnReport, TurnResult, Usage


class Model:
    """An agent that answers and costs something."""

    name = "model"

    def execute(self, input: str, **_: Any) -> AgentResult:
        return AgentResult(text="scripted reply", usage=Usage(input=3, output=4, total=7))


def nodes(node: ReportNode) -> Iterator[ReportNode]:
    yield node
    for child in node.children:
        yield from nodes(child)


def report_of(result: TurnResult) -> TurnReport:
    assert result.report is not None
    return result.report


def mixed() -> World:
    """A callback, an agent, a callback that fails, then END."""

    def slow(ctx: IntentContext) -> None:
        world.clock.moves(2 * SECOND)

    order = ["slow", "model", "fails", END]
    world = World(
        walker(
            3,
            version="7",
            intents={"slow": slow, "model": Model(), "fails": lambda ctx: 1 / 0},
            route=lambda ctx: order[ctx.iteration],
        )
    )
    return world


def test_a_turn_is_the_root_and_its_supervisor_the_only_child() -> None:
    """[O 2.9.2, O 2.9.4, O 16.1 1, 2, 7]."""
    world = World(counter())

    report = report_of(world.execute())

    assert (report.type, report.name, report.session_id) == ("orchestrator", "counter", "s1")
    assert (report.status, report.turn_index, report.iterations) == ("awaiting-input", 0, 1)
    assert (report.signature, report.version, report.attempts) == (world.signature, None, 0)
    (supervisor,) = report.children
    assert (supervisor.type, supervisor.status) == ("supervisor", "completed")


def test_dispatched_intents_are_the_supervisors_children() -> None:
    """[O 12.8, O 16.3 63]."""
    report = report_of(mixed().execute())

    branches = report.children[0].children
    assert [(one.type, one.name, one.status) for one in branches] == [
        ("callback", "slow", "completed"),
        ("agent", "model", "completed"),
        ("callback", "fails", "failed"),
    ]
    assert branches[2].error is not None
    assert branches[2].error["cause"]["type"] == "ZeroDivisionError"
    assert (report.iterations, report.terminated_by, report.version) == (4, "route", "7")


def test_usage_and_duration_are_the_sum_of_the_branches() -> None:
    """[O 2.9.7]."""
    result = mixed().execute()

    report = report_of(result)
    supervisor = report.children[0]
    assert result.usage == report.usage == supervisor.usage == Usage(input=3, output=4, total=7)
    assert [one.usage.total for one in supervisor.children] == [0, 7, 0]
    assert report.duration == supervisor.duration == 2.0


def test_every_node_knows_its_root_its_parent_and_its_session() -> None:
    """[O 2.9.9, O 15.4 G46]."""
    report = report_of(mixed().execute())

    assert report.parent_run_id is None
    for node in nodes(report):
        assert (node.root_run_id, node.session_id) == (report.run_id, "s1")
        assert all(child.parent_run_id == node.run_id for child in node.children)


def test_no_two_nodes_have_one_run_id() -> None:
    """[O 16.5 T27] Also where one intent runs in two iterations, or in two turns."""
    world = World(walker(3))

    seen = [node.run_id for _ in range(2) for node in nodes(report_of(world.execute()))]

    assert len(seen) == len(set(seen)) == 10


def test_a_failed_turn_reports_in_full() -> None:
    """[O 2.6.3]."""
    result = World(walker(9, max_iterations=2)).execute()

    report = report_of(result)
    assert (report.status, report.terminated_by) == ("max-iterations", "max-iterations")
    assert report.iterations == 2
    assert report.error == report.children[0].error == result.error_record
    assert report.children[0].status == "max-iterations"


def test_a_report_survives_json() -> None:
    report = report_of(mixed().execute())

    assert TurnReport.model_validate_json(report.model_dump_json()) == report


def test_a_checkpoint_keeps_the_last_iteration_that_dispatched() -> None:
    """[O 2.9.5, O 2.9.6] Not the END after it, which has no result."""
    world = World(walker(2))
    world.execute("hi")

    head = world.head()

    assert head is not None
    snapshot = head.turn_snapshot
    assert (snapshot["turn"], snapshot["input"], snapshot["iteration"]) == (0, "hi", 1)
    assert snapshot["decision"] == {"source": "route", "next": "walk", "reasoning": None}
    assert snapshot["result"]["walk"]["output"] == {"path": [0, 1]}
    assert "state" not in snapshot


def test_a_checkpoint_of_a_turn_that_dispatched_nothing_says_so() -> None:
    world = World(walker(0))
    world.execute("hi")

    head = world.head()

    assert head is not None
    assert head.turn_snapshot == {"turn": 0, "input": "hi"}
