"""Crashes of an engine, and what resuming makes of them. [O 4]."""

from __future__ import annotations

from typing import Any

import pytest

from tests.orchestrator_core.builders import (
    HISTORY5,
    Crash,
    World,
    code_of,
    counter,
    finished,
    walker,
)
from turnchain.orchestrator_core.callbacks import (
    END,
    AgentResult,
    IntentContext,
)
from turnchain.orchestrator_core.contracts import (
    CheckpointRecord,
    Owner,
    TurnStatus,
    Usage,
)
from turnchain.orchestrator_core.definition import Intent, Orchestrator
from turnchain.orchestrator_core.errors import (
    CancelRequested,
    OrchestratorDriftError,
    SessionOwnerError,
)
from turnchain.orchestrator_core.ports import Unit
from turnchain.stores.memory import MemoryCheckpoints


def crossing(dies: list[int]) -> tuple[Any, list[tuple[str, int]]]:
    """Three iterations with a step each, the last of which dies once where `dies` says; and what was called."""
    calls: list[tuple[str, int]] = []

    def walk(ctx: IntentContext) -> dict[str, Any]:
        def effect(_: Any) -> int:
            calls.append(("effect", ctx.iteration))
            return ctx.iteration * 10

        calls.append(("intent", ctx.iteration))
        booked = ctx.step("book", effect)
        if ctx.iteration in dies:
            dies.remove(ctx.iteration)
            raise Crash
        return {"path": [*ctx.state["path"], booked]}

    return walker(3, intents={"walk": walk}), calls


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_a_crashed_turn_is_resumed_at_the_iteration_that_was_cut(cut: int) -> None:
    """[O 3.15.2, O 15.5 I7, O 16.5 T7] Settled iterations and finished steps are not run again."""
    definition, calls = crossing([cut])
    world = World(definition)

    world.crash("hello")
    result = finished(world.resume())

    assert result.data == {"path": [0, 10, 20]}
    assert sorted(each for what, each in calls if what == "effect") == [0, 1, 2]
    assert sorted(each for what, each in calls if what == "intent") == sorted([0, 1, 2, cut])
    assert (result.turn_index, world.state()) == (0, {"path": [0, 10, 20]})


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_a_resumed_turn_comes_to_what_an_uninterrupted_one_does(cut: int) -> None:
    """[O 15.5 I10]."""
    worlds = [World(crossing([])[0]), World(crossing([cut])[0])]

    whole = worlds[0].execute()
    worlds[1].crash()
    resumed = finished(worlds[1].resume())

    assert resumed.data == whole.data
    assert whole.report is not None
    assert resumed.report is not None
    assert (resumed.report.iterations, resumed.report.terminated_by) == (
        whole.report.iterations,
        whole.report.terminated_by,
    )
    heads = [world.head() for world in worlds]
    assert heads[0] is not None
    assert heads[1] is not None
    assert heads[0].turn_snapshot == heads[1].turn_snapshot


def test_a_dead_engines_turn_ends_as_interrupted() -> None:
    """[DESIGN 3] Promise 1 holds for it, too."""
    world = World(crossing([1])[0])
    world.crash()

    (row,) = world.stores.tables.turns.values()

    assert row.status is TurnStatus.FAILED
    assert code_of(world.result(row.turn_id)) == "TURN_INTERRUPTED"
    assert world.event_names(row.wake)[-1] == "turn.failed"


def test_a_second_resume_finds_nothing() -> None:
    """[O 4.2.10]."""
    world = World(crossing([1])[0])
    world.crash()

    assert world.resume() is not None
    assert world.resume() is None


@pytest.mark.parametrize("definition", [counter(), walker(1)], ids=["one dispatch", "iterating"])
def test_where_nothing_was_left_there_is_nothing_to_resume(definition: Any) -> None:
    """[O 16.1 26] An unknown session, and one whose turns all settled."""
    world = World(definition)
    world.execute(session="settled")

    assert world.resume("unknown") is None
    assert world.resume("settled") is None


def test_a_turn_that_crashed_again_is_resumed_again() -> None:
    definition, calls = crossing([0, 2])
    world = World(definition)
    world.crash()
    with pytest.raises(Crash):
        world.resume()

    assert finished(world.resume()).data == {"path": [0, 10, 20]}
    assert [each for what, each in calls if what == "effect"] == [0, 1, 2]


def test_a_later_turn_gives_up_what_was_left() -> None:
    """Whoever goes on without resuming has decided; the index goes to the new turn."""
    world = World(crossing([1])[0])
    world.crash()

    assert finished(world.execute()).turn_index == 0
    assert world.resume() is None


def test_a_resumed_turn_sees_its_input_history_context_and_patch() -> None:
    """[O 3.15.3, O 4.3.1, O 16.5 T12]."""
    seen: list[Any] = []
    dies = [True]

    def walk(ctx: IntentContext) -> None:
        seen.append((ctx.input, len(ctx.history), dict(ctx.context), ctx.state["x"]))
        if dies:
            dies.clear()
            raise Crash

    world = World(walker(1, intents={"walk": walk}))
    world.crash({"say": "hi"}, history=HISTORY5, context={"locale": "de"}, state={"x": 1})
    finished(world.resume())

    assert seen == [({"say": "hi"}, 5, {"locale": "de"}, 1)] * 2


def test_a_resumed_turn_follows_the_next_of_before_the_crash() -> None:
    """[O 15.2 G9, O 16.5 T32] Asking `route` again would have led elsewhere."""
    calls: list[str] = []
    dies = [True]

    def special(ctx: IntentContext) -> None:
        if dies:
            dies.clear()
            raise Crash
        calls.append("special")

    def first(ctx: IntentContext) -> None:
        calls.append("first")

    world = World(
        walker(
            1,
            intents={
                "first": Intent(run=first, next=lambda ctx: "special"),
                "special": special,
                "default": lambda ctx: calls.append("default"),
            },
            route=lambda ctx: ["first", "default", END][ctx.iteration],
        )
    )
    world.crash()
    finished(world.resume())

    assert calls == ["first", "special"]


def test_usage_of_a_resumed_turn_counts_both_parts() -> None:
    """[O 16.5 T12]."""
    dies = [True]

    class Model:
        name = "model"

        def execute(self, input: str, **_: Any) -> AgentResult:
            return AgentResult(text="x", usage=Usage(input=5, total=5))

    def crash(ctx: IntentContext) -> None:
        if dies:
            dies.clear()
            raise Crash

    world = World(
        walker(
            3,
            intents={"model": Model(), "crash": crash},
            route=lambda ctx: ["model", "crash", "model", END][ctx.iteration],
        )
    )
    world.crash()

    assert finished(world.resume()).usage == Usage(input=10, total=10)


def test_a_run_that_was_over_is_only_persisted() -> None:
    """[O 4.3.3, O 15.1 G4, O 16.5 T10, T11] The engine died between the last iteration and the checkpoint."""
    definition, calls = crossing([])
    world = World(definition)

    class Dies(MemoryCheckpoints):
        def append(self, record: CheckpointRecord, unit: Unit) -> None:
            raise Crash

    world.using(checkpoints=Dies(world.stores.tables))
    world.crash()
    world.using(checkpoints=world.stores.checkpoints)
    calls.clear()

    assert finished(world.resume()).data == {"path": [0, 10, 20]}
    assert calls == []


def test_only_its_owner_resumes_a_turn() -> None:
    world = World(crossing([1])[0])
    world.crash(tenant="acme", user_id="u1")

    for stranger in (None, Owner(tenant="acme"), Owner(tenant="globex", user_id="u1")):
        with pytest.raises(SessionOwnerError):
            world.resume(owner=stranger)

    assert finished(world.resume(owner=Owner(tenant="acme", user_id="u1"))).ok


def test_a_cancelled_turn_is_not_resumed() -> None:
    """[O 4.3.4]."""

    def walk(ctx: IntentContext) -> None:
        raise CancelRequested

    world = World(walker(1, intents={"walk": walk}))
    assert world.execute().status is TurnStatus.CANCELLED

    assert world.resume() is None


# -- resuming under another definition


def crossing_changed(**fields: Any) -> Any:
    walk = crossing([])[0].intents["walk"]
    return walker(3, intents={"walk": walk, "more": walk}, **fields)


@pytest.mark.parametrize("settled", [0, 1], ids=["first turn", "later turn"])
def test_a_resume_under_another_definition_is_refused_and_nothing_is_lost(settled: int) -> None:
    """[O 4.2.3, O 16.1 28] It used the run up: neither the former definition nor force could go on with it."""
    before = World(crossing([1])[0])
    for _ in range(settled):
        World(walker(0), beside=before).execute()
    before.crash()
    world = before.serving(crossing_changed())

    with pytest.raises(OrchestratorDriftError) as refused:
        world.resume()

    assert refused.value.context["current_signature"] == world.signature
    assert refused.value.context["saved_signature"] == before.signature
    assert finished(before.resume()).turn_index == settled


@pytest.mark.parametrize("fields", [{}, {"on_drift": "accept"}], ids=["force", "accept"])
def test_a_resume_under_another_definition_goes_on_where_that_is_wanted(
    fields: dict[str, Any],
) -> None:
    """[O 0.3 X15, O 16.5 T13]."""
    before = World(crossing([1])[0])
    before.crash()
    world = before.serving(crossing_changed(**fields))

    assert finished(world.resume(force=not fields)).data == {"path": [0, 10, 20]}


@pytest.mark.parametrize("asked", ["evaluate", "next"])
def test_a_settled_branch_is_not_dispatched_again(asked: str) -> None:
    """[DESIGN 1.3, O 15.5 I7] Its iteration was cut while `evaluate` or `next` was asked, which may take long."""
    calls: list[str] = []
    dies = [True]

    def pay(_: IntentContext) -> dict[str, Any]:
        calls.append("pay")
        return {"paid": True}

    def judge(_: Any) -> None:
        calls.append(asked)
        if dies:
            dies.pop()
            raise Crash

    def following(ctx: IntentContext) -> str:
        if asked == "next":
            judge(ctx)
        return END

    intents = {"pay": Intent(run=pay, next=following)}
    definition = Orchestrator(
        name="payer",
        intents=intents,
        route=lambda _: "pay",
        evaluate=judge if asked == "evaluate" else None,
        iterate=True,
    )
    world = World(definition)

    world.crash("hello")
    result = finished(world.resume())

    assert calls == ["pay", asked, asked]
    assert result.data == {"paid": True}
