"""Runs in flight: a head and its settled iterations. [O 10.6]."""

from __future__ import annotations

from typing import Any

import pytest

from turnchain.orchestrator_core.contracts import (
    BranchRecord,
    Carry,
    Claim,
    Decision,
    IterationSnapshot,
    OpenIteration,
    SupervisorRun,
    Usage,
    Verdict,
)
from turnchain.orchestrator_core.errors import LeaseLost
from turnchain.stores.conformance.exam import Exam, Given, Stores, session_of


def run_of(run_id: str, **fields: Any) -> SupervisorRun:
    """A run that has not settled anything."""
    given: dict[str, Any] = {"input": {"say": "hi"}, "seed_state": {"n": 0}, **fields}
    return SupervisorRun(
        run_id=run_id,
        session=session_of("s"),
        turn_index=0,
        signature="sig",
        max_iterations=5,
        iterate=True,
        **given,
    )


def iteration_of(index: int, **fields: Any) -> IterationSnapshot:
    """A settled iteration."""
    given: dict[str, Any] = {"state": {"n": index + 1}, **fields}
    return IterationSnapshot(
        iteration=index,
        decision=Decision(source="route", next="book", reasoning="because"),
        result={"book": BranchRecord(intent="book", output=[1, {"a": None}], usage=Usage(input=3))},
        verdict=Verdict(feedback="more"),
        usage=Usage(input=3, total=3),
        duration=0.25,
        **given,
    )


class SnapshotsSuite(Exam):
    """`SnapshotStore`."""

    def test_an_unknown_run_has_none(self, stores: Stores) -> None:
        """[O 10.7]."""
        assert stores.snapshots.load("nobody") is None
        assert stores.snapshots.list() == []

    def test_a_run_is_saved_before_its_first_iteration(self, given: Given, stores: Stores) -> None:
        """[O 15.1 G11]."""
        run = run_of("r", version="1", error={"code": "X"}, carry=Carry(next="pay", feedback="f"))

        _save(stores, given.claimed("t1"), run)

        assert stores.snapshots.load("r") == run

    def test_settled_iterations_come_back_in_order(self, given: Given, stores: Stores) -> None:
        """[O 10.6, O 15.2 G25] Each written once, in a row of its own."""
        claim = given.claimed("t1")
        settled = tuple(iteration_of(index) for index in range(12))
        _save(stores, claim, run_of("r"))
        for index in range(12):
            run = run_of("r", carry=Carry(next=f"n{index}")).evolve(iterations=settled[: index + 1])
            _save(stores, claim, run, settled[index])

        loaded = stores.snapshots.load("r")

        assert loaded is not None
        assert loaded.iterations == settled
        assert (loaded.iteration, loaded.carry) == (11, Carry(next="n11"))

    def test_a_settled_branch_is_stored_with_its_open_iteration(
        self, given: Given, stores: Stores
    ) -> None:
        """[O 15.5 I7] A crash while `evaluate` is asked must not dispatch the intent again."""
        branch = BranchRecord(intent="book", output={"id": 7})
        decision = Decision(source="route", next="book")
        open_one = OpenIteration(decision=decision, branch=branch, state={"id": 7})

        _save(stores, given.claimed("t1"), run_of("r").evolve(open=open_one))

        loaded = stores.snapshots.load("r")
        assert loaded is not None
        assert loaded.open == open_one

    def test_a_settled_iteration_never_changes(self, given: Given, stores: Stores) -> None:
        """[O 15.5 I7] Saving it again is safe."""
        claim = given.claimed("t1")
        _save(stores, claim, run_of("r"), iteration_of(0))

        _save(stores, claim, run_of("r"), iteration_of(0, state={"n": 99}))

        loaded = stores.snapshots.load("r")
        assert loaded is not None
        assert loaded.iterations == (iteration_of(0),)

    def test_a_lost_lease_saves_and_deletes_nothing(self, given: Given, stores: Stores) -> None:
        """[O 15.1 G7]."""
        claim = given.claimed("t1")
        _save(stores, claim, run_of("r"), iteration_of(0))
        stores.ledger.hand_back(claim)

        with pytest.raises(LeaseLost):
            _save(stores, claim, run_of("r", terminated_by="error"), iteration_of(1))
        with pytest.raises(LeaseLost), stores.ledger.unit(claim, durable=True) as unit:
            stores.snapshots.delete("r", unit)

        loaded = stores.snapshots.load("r")
        assert loaded is not None
        assert (loaded.iteration, loaded.terminated_by) == (0, None)

    def test_a_changed_run_changes_nothing_stored(self, given: Given, stores: Stores) -> None:
        """[O 10.6.2]."""
        run = run_of("r", seed_state={"slots": []})
        _save(stores, given.claimed("t1"), run)

        run.seed_state["slots"].append("x")
        loaded = stores.snapshots.load("r")
        assert loaded is not None
        loaded.seed_state["slots"].append("y")

        again = stores.snapshots.load("r")
        assert again is not None
        assert again.seed_state == {"slots": []}

    def test_deleting_takes_the_run_and_its_iterations(self, given: Given, stores: Stores) -> None:
        """[O 15.2 G25] Twice is once, and a new run of that name starts afresh."""
        claim = given.claimed("t1")
        _save(stores, claim, run_of("r"), iteration_of(0))
        _save(stores, claim, run_of("other"))

        for _ in range(2):
            with stores.ledger.unit(claim, durable=False) as unit:
                stores.snapshots.delete("r", unit)

        assert stores.snapshots.load("r") is None
        assert stores.snapshots.list() == ["other"]
        _save(stores, claim, run_of("r"))
        assert stores.snapshots.load("r") == run_of("r")

    def test_a_prefix_is_literal(self, given: Given, stores: Stores) -> None:
        r"""[O 10.6.3] `_`, `%` and `\` included; in code-point order."""
        names = ("a_1", "ab1", "a%1", "a\\1", "B")
        claim = given.claimed("t1")
        for name in names:
            _save(stores, claim, run_of(name))

        assert stores.snapshots.list() == sorted(names)
        assert stores.snapshots.list("a_") == ["a_1"]
        assert stores.snapshots.list("a%") == ["a%1"]
        assert stores.snapshots.list("a\\") == ["a\\1"]

    def test_the_schema_can_be_asked_for(self, stores: Stores) -> None:
        """[DESIGN 4] Text to apply, or empty."""
        assert isinstance(stores.snapshots.schema(), str)


def _save(
    stores: Stores, claim: Claim, run: SupervisorRun, settled: IterationSnapshot | None = None
) -> None:
    with stores.ledger.unit(claim, durable=True) as unit:
        stores.snapshots.save(run, settled, unit)
