"""The journal of side effects. [DESIGN 6, Steps]."""

from __future__ import annotations

import pytest

from turnchain.orchestrator_core.contracts import Stage
from turnchain.orchestrator_core.errors import LeaseLost
from turnchain.orchestrator_core.ports import Ledger
from turnchain.stores.conformance.exam import EXPIRED, Exam, Given, id_of

RESULT = {"booked": True, "parts": [1, 2.5, None], "name": "Zoë"}


class StepsSuite(Exam):
    """`Ledger.begin_step` and `finish_step`."""

    def test_a_first_begin_writes_the_intent(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 6, Steps]."""
        claim = given.claimed("t1", stage=Stage.DISPATCH)

        step = ledger.begin_step(claim, "run", "run:0:book:pay", "pay")

        assert (step.run_id, step.effect_key, step.name) == ("run", "run:0:book:pay", "pay")
        assert (step.status, step.result, step.created) == ("intended", None, True)

    def test_a_step_cut_between_intent_and_result_is_in_doubt(
        self, given: Given, ledger: Ledger
    ) -> None:
        """[DESIGN 6, Steps] Never silently again, in whichever process."""
        claim = given.claimed("t1", stage=Stage.DISPATCH, lease=EXPIRED)
        ledger.begin_step(claim, "run", "key", "pay")
        (wake,) = ledger.take_over_expired(3)

        step = ledger.begin_step(given.granted(wake), "run", "key", "pay")

        assert (step.status, step.created) == ("intended", False)

    def test_a_finished_step_answers_from_the_journal(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 1.3] In every later attempt."""
        claim = given.claimed("t1", stage=Stage.DISPATCH, lease=EXPIRED)
        ledger.begin_step(claim, "run", "key", "pay")
        ledger.finish_step(claim, "run", "key", RESULT)
        (wake,) = ledger.take_over_expired(3)

        step = ledger.begin_step(given.granted(wake), "run", "key", "pay")

        assert (step.status, step.result, step.created) == ("finished", RESULT, False)

    def test_no_result_is_a_result(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 6, Steps] A step that returned None is finished."""
        claim = given.claimed("t1", stage=Stage.DISPATCH)
        ledger.begin_step(claim, "run", "key", "pay")
        ledger.finish_step(claim, "run", "key", None)

        assert ledger.begin_step(claim, "run", "key", "pay").status == "finished"

    def test_a_result_is_written_once(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 1.3]."""
        claim = given.claimed("t1", stage=Stage.DISPATCH)
        ledger.begin_step(claim, "run", "key", "pay")
        for result in (1, 2):
            ledger.finish_step(claim, "run", "key", result)

        assert ledger.begin_step(claim, "run", "key", "pay").result == 1

    def test_a_finished_step_is_progress(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 6, Attempts] An intended one is not."""
        given.claimed("t1", stage=Stage.DISPATCH, lease=EXPIRED)
        (wake,) = ledger.take_over_expired(3)
        claim = given.granted(wake)

        ledger.begin_step(claim, "run", "key", "pay")
        assert given.turn("t1").attempts == 1
        ledger.finish_step(claim, "run", "key", 1)
        assert given.turn("t1").attempts == 0

    def test_a_lost_lease_neither_begins_nor_finishes(self, given: Given, ledger: Ledger) -> None:
        """[O 15.1 G7]."""
        claim = given.claimed("t1", stage=Stage.DISPATCH, lease=EXPIRED)
        ledger.begin_step(claim, "run", "begun", "pay")
        (wake,) = ledger.take_over_expired(3)

        with pytest.raises(LeaseLost):
            ledger.begin_step(claim, "run", "new", "pay")
        with pytest.raises(LeaseLost):
            ledger.finish_step(claim, "run", "begun", RESULT)

        owner = given.granted(wake)
        assert ledger.begin_step(owner, "run", "new", "pay").created
        assert ledger.begin_step(owner, "run", "begun", "pay").status == "intended"
        assert given.turn("t1").attempts == 1

    def test_runs_do_not_share_steps(self, given: Given, ledger: Ledger) -> None:
        """[O 15.1 G15] Not even under equal keys."""
        claim = given.claimed("t1", stage=Stage.DISPATCH)
        ledger.begin_step(claim, "run-1", "key", "pay")

        assert ledger.begin_step(claim, "run-2", "key", "pay").created

    def test_a_journal_survives_its_turn(self, given: Given, ledger: Ledger) -> None:
        """[O 4.2] A resumed run goes on under another turn."""
        claim = given.claimed("t1", stage=Stage.DISPATCH, runner="engine", lease=EXPIRED)
        ledger.begin_step(claim, id_of("t1"), "key", "pay")
        ledger.finish_step(claim, id_of("t1"), "key", RESULT)
        ledger.take_over_expired(3)

        resumed = given.claimed("t2", stage=Stage.DISPATCH, run_id=id_of("t1"))

        assert ledger.begin_step(resumed, id_of("t1"), "key", "pay").result == RESULT
