"""The one outcome of a turn. [DESIGN 1.2, O 15.5 I6, I12]."""

from __future__ import annotations

import pytest

from turnchain.orchestrator_core.contracts import Outcome, Stage, TurnStatus
from turnchain.orchestrator_core.contracts.events import terminal_event
from turnchain.orchestrator_core.ports import Ledger
from turnchain.stores.conformance.exam import ANSWERED, FAILED, Exam, Given, id_of, stored


class SettlingSuite(Exam):
    """`Unit.settle`."""

    @pytest.mark.parametrize(
        "status",
        [
            TurnStatus.AWAITING_INPUT,
            TurnStatus.FAILED,
            TurnStatus.CANCELLED,
            TurnStatus.MAX_ITERATIONS,
            TurnStatus.QUARANTINED,
        ],
    )
    def test_a_settled_turn_has_one_outcome_and_one_terminal_event(
        self, given: Given, ledger: Ledger, status: TurnStatus
    ) -> None:
        """[O 15.5 I6, I12]."""
        claim = given.claimed("t1", stage=Stage.PERSIST)
        outcome = Outcome(
            status=status,
            data={"a": 1},
            error={"code": "X", "message": "m"},
            state={"n": 1},
            last_route=["a", "b"],
            report={"run_id": "r"},
        )

        with ledger.unit(claim, durable=True) as unit:
            unit.settle(outcome)
            unit.hand_over(Stage.COMPACT)

        (settled,) = ledger.settled([id_of("t1")])
        assert settled.outcome == stored(outcome)
        assert settled.turn == given.turn("t1")
        assert settled.turn.status is status
        assert settled.turn.settled_at is not None
        assert given.events("t1") == [terminal_event(status)]

    def test_an_outcome_is_written_once(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 1.2] Whatever comes later finds the turn settled."""
        claim = given.claimed("t1", stage=Stage.PERSIST)

        for outcome in (ANSWERED, FAILED):
            with ledger.unit(claim, durable=True) as unit:
                unit.settle(outcome)

        assert given.turn("t1").status is TurnStatus.AWAITING_INPUT
        assert given.outcome("t1") == stored(ANSWERED)
        assert len(given.events("t1")) == 1

    def test_a_turn_keeps_its_status_through_compact(self, given: Given) -> None:
        """[DESIGN 5] Its stage goes on under the same claim, lease and sweep."""
        claim = given.claimed("t1", stage=Stage.PERSIST)

        compact = given.granted(given.persisted(claim, FAILED))
        given.passed(compact)

        assert (given.turn("t1").status, given.turn("t1").stage) == (
            TurnStatus.FAILED,
            Stage.DONE,
        )
