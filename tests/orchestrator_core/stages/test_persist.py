"""Commit the outcome, once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.orchestrator_core.builders import SECOND, World, counter, walker
from turnchain.orchestrator_core.callbacks import END, AgentResult
from turnchain.orchestrator_core.contracts import (
    CheckpointRecord,
    Stage,
    TurnStatus,
    Usage,
    Wake,
)
from turnchain.orchestrator_core.errors import (
    LeaseLost,
    OrchestratorFailedError,
    StoreUnavailableError,
)
from turnchain.orchestrator_core.ports import Unit
from turnchain.orchestrator_core.stages import persist
from turnchain.stores.memory import MemoryCheckpoints

FAILS = {"intents": {"bump": lambda ctx: 1 / 0}}  # pyright: ignore[reportUnknownVariableType, reportUnknownLambdaType]


def persisted(world: World, wake: Wake | None = None, **arguments: Any) -> Wake:
    """A turn whose `persist` has run."""
    wake = wake or world.ready(Stage.PERSIST, **arguments)
    following = world.run(wake).following
    assert following is not None
    assert following.stage is Stage.COMPACT
    return following


def test_a_settled_turn_leaves_one_record() -> None:
    """[O 2.7.1, O 16.1 1]."""
    world = World(counter(version="7"))

    wake = persisted(world, input="hello")

    record = world.head()
    assert record is not None
    assert record.model_copy(update={"turn_snapshot": {}}) == CheckpointRecord(
        orchestrator_name="counter",
        session_id="s1",
        turn_index=0,
        state={"count": 1, "lastInput": "hello"},
        last_route="bump",
        signature=world.signature,
        version="7",
        saved_at=world.clock.instant,
        turn_id=wake.turn_id,
        run_id=wake.turn_id,
        fence=wake.fence,
        turn_snapshot={},
    )
    assert record.turn_snapshot["input"] == "hello"
    assert record.turn_snapshot["decision"]["next"] == "bump"


def test_a_record_names_the_fence_that_it_was_written_under() -> None:
    """[O 15.1 G7]."""
    world = World(counter())
    world.at(Stage.PERSIST)
    (wake,) = world.drain()

    persisted(world, wake)

    record = world.head()
    assert record is not None
    assert record.fence == wake.fence == 1


def test_the_record_is_told_before_the_terminal_event() -> None:
    """[O 2.7.3, O 15.5 I12]."""
    world = World(counter())
    wake = persisted(world)

    events = world.events(wake)[-2:]

    assert [event.type for event in events] == [
        "orchestrator.checkpoint.persisted",
        "orchestrator.turn.awaiting-input",
    ]
    assert events[0].payload == {"sessionId": "s1", "turnIndex": 0}


def test_a_failed_turn_leaves_the_session_as_it_was() -> None:
    """[O 2.6.2, O 15.5 I5] Its index is free again."""
    world = World(counter())
    world.execute()
    failing = world.serving(counter(**FAILS))

    wake = persisted(failing, force=True)

    head = world.head()
    assert head is not None
    assert (head.turn_index, head.state["count"]) == (0, 1)
    assert world.turn(wake).status is TurnStatus.FAILED
    assert world.event_names(wake)[-1] == "turn.failed"
    assert "checkpoint.persisted" not in world.event_names(wake)
    assert world.execute().turn_index == 1


def test_the_status_is_final_here_and_the_next_turn_need_not_wait_for_compact() -> None:
    """[DESIGN 5]."""
    world = World(counter())
    wake = world.ready(Stage.PERSIST)
    behind = world.accepted("second")

    passage = world.run(wake)

    assert [other.turn_id for other in passage.others] == [behind]
    assert world.turn(wake).status is TurnStatus.AWAITING_INPUT


class Flaky(MemoryCheckpoints):
    """Fails once to append."""

    failed = False

    def append(self, record: CheckpointRecord, unit: Unit) -> None:
        if not self.failed:
            self.failed = True
            raise StoreUnavailableError("connection reset")
        super().append(record, unit)


def test_a_failed_save_is_tried_again_without_the_intents() -> None:
    """[O 2.10, O 15.1 G4, O 16.5 T10]."""
    calls: list[int] = []
    world = World(walker(1, intents={"walk": lambda ctx: calls.append(ctx.iteration)}))
    world.using(checkpoints=Flaky(world.stores.tables))
    wake = world.ready(Stage.PERSIST)
    with pytest.raises(StoreUnavailableError):
        world.run(wake)
    assert world.turn(wake).status is TurnStatus.RUNNING

    (wake,) = world.drain()
    persisted(world, wake)

    assert calls == [0]
    assert world.turn(wake).status is TurnStatus.AWAITING_INPUT
    assert world.head() is not None


def test_a_taken_index_ends_the_turn_failed() -> None:
    """Another turn's record stands there, from wherever: nobody's record is overwritten."""
    world = World(counter())
    wake = world.ready(Stage.PERSIST)
    donor = World(counter())
    donor.new_id()
    donor.execute("from elsewhere")
    world.stores.tables.checkpoints.update(donor.stores.tables.checkpoints)

    persisted(world, wake)

    result = world.result(wake)
    assert result.status is TurnStatus.FAILED
    assert result.error is not None
    assert result.error.code == "TURN_CONFLICT"
    assert world.state()["lastInput"] == "from elsewhere"
    assert world.event_names(wake)[-1] == "turn.failed"
    assert "checkpoint.persisted" not in world.event_names(wake)


def test_a_lost_lease_commits_nothing() -> None:
    """[O 15.1 G7]."""
    world = World(counter())
    turn = world.at(Stage.PERSIST)
    world.drain()

    with pytest.raises(LeaseLost), world.ledger.unit(turn.claim, durable=True) as unit:
        persist.commit(turn, world.env, unit)

    assert world.head() is None
    assert world.turn(turn.claim.wake).status is TurnStatus.RUNNING


def test_a_turn_without_an_outcome_is_a_fault_of_ours() -> None:
    world = World(counter())
    turn = world.at(Stage.PERSIST)
    undecided = turn.found(outcome=None)

    with pytest.raises(OrchestratorFailedError, match="without an outcome"):
        persist.run(undecided, world.env)


class Model:
    """An agent that costs something."""

    name = "model"

    def execute(self, input: str, **_: Any) -> AgentResult:
        return AgentResult(text="x", usage=Usage(input=5, total=5))


def test_a_cancel_at_the_last_moment_still_tells_what_the_turn_cost() -> None:
    """[O 2.6.3, DESIGN 5] The report went with the outcome that it replaced, usage and all."""
    world = World(
        walker(1, intents={"m": Model()}, route=lambda ctx: END if ctx.iteration else "m")
    )
    wake = world.ready(Stage.PERSIST)
    assert world.ledger.request_cancel(wake.turn_id, world.turn(wake).owner) == "requested"

    persisted(world, wake)

    result = world.result(wake)
    assert (result.status, result.usage.total) == (TurnStatus.CANCELLED, 5)
    assert result.report is not None
    assert (result.report.status, result.report.terminated_by) == ("cancelled", "cancelled")
    assert result.report.iterations == 2


def test_an_outcome_of_before_dispatch_has_no_report() -> None:
    world = World(counter())
    world.execute()
    drifted = world.serving(counter(iterate=True))

    wake = persisted(drifted, drifted.ready(Stage.PERSIST))

    assert world.result(wake).report is None


def test_instants_of_a_report_are_the_ledgers() -> None:
    """[O 15.2 G27]."""
    world = World(counter())
    began = world.clock.instant
    wake = world.ready(Stage.PERSIST)
    world.clock.moves(SECOND)

    persisted(world, wake)

    report = world.result(wake).report
    assert report is not None
    assert (report.started_at, report.ended_at) == (began, began + SECOND)
