"""A model that finds nothing proves nothing: it must find what is planted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis.stateful import run_state_machine_as_test

from tests.model.machine import TurnMachine
from tests.model.planted import PLANTED
from tests.model.settings import SEARCH
from turnchain.orchestrator_core.contracts import Stage
from turnchain.orchestrator_core.stages import compact, persist
from turnchain.stores.memory import MemoryLedger, MemorySnapshots


def _nothing(*_: Any) -> None:
    pass


@pytest.mark.parametrize("fault", PLANTED, ids=lambda fault: fault.__name__)
def test_the_model_finds(fault: type[MemoryLedger]) -> None:
    class Planted(TurnMachine):
        ledger_class = fault

    with pytest.raises(AssertionError):
        run_state_machine_as_test(Planted, settings=SEARCH)


@pytest.mark.parametrize(
    ("place", "name"),
    [(persist, "commit"), (compact, "commit")],
    ids=["outcomes are not committed", "runs are not deleted"],
)
def test_the_model_finds_a_stage_where(
    monkeypatch: pytest.MonkeyPatch, place: Any, name: str
) -> None:
    monkeypatch.setattr(place, name, _nothing)

    with pytest.raises(AssertionError):
        run_state_machine_as_test(TurnMachine, settings=SEARCH)


def test_the_model_finds_iterations_that_are_not_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = MemorySnapshots.save

    def without(self: Any, run: Any, settled: Any, unit: Any) -> None:
        whole(self, run, None, unit)

    monkeypatch.setattr(MemorySnapshots, "save", without)

    with pytest.raises(AssertionError):
        run_state_machine_as_test(TurnMachine, settings=SEARCH)


def test_the_model_finds_an_outcome_that_is_committed_before_its_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """[O 15.1 G4] The commit gap of the original."""
    whole = persist.commit

    def torn(turn: Any, env: Any, unit: Any) -> None:
        if turn.deferred is None:
            with env.ledger.unit(turn.claim, durable=True) as first:
                first.settle(turn.work.outcome)
        whole(turn, env, unit)

    monkeypatch.setattr(persist, "commit", torn)

    with pytest.raises(AssertionError):
        run_state_machine_as_test(TurnMachine, settings=SEARCH)


class Reached(Exception):
    """Told the way a fault would be, so that the search ends with it."""


@pytest.mark.parametrize(
    "place",
    [*Stage, "awaiting-input", "cancelled", "failed", "dead", "compaction", "taken over"],
    ids=str,
)
def test_the_model_reaches(place: str) -> None:
    """An exam that never comes far enough passes too easily."""

    class Seeing(TurnMachine):
        def _raise(self) -> None:
            super()._raise()
            for row in self.stores.tables.turns.values():
                taken_over = "taken over" if row.takeovers else ""
                if place in (row.stage, row.status, row.parked, taken_over):
                    raise Reached

    with pytest.raises(Reached):
        run_state_machine_as_test(Seeing, settings=SEARCH)
