"""A turn that is kept while it moves on: one claim over several stages. [DESIGN 5 Chain modes, ADR 0016]."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from turnchain.orchestrator_core.contracts import (
    Claim,
    NewEvent,
    Owner,
    Stage,
    TurnStatus,
    TurnWork,
    Wake,
)
from turnchain.orchestrator_core.errors import LeaseLost, StopAsked
from turnchain.stores.conformance.exam import (
    ANSWERED,
    EXPIRED,
    FAILED,
    LEASE,
    Exam,
    Given,
    Stores,
    id_of,
)

WORK = TurnWork(turn_index=0)
REFUSED = TurnWork(turn_index=0, outcome=FAILED)


def kept(stores: Stores, claim: Claim, *moves: tuple[Stage, TurnWork]) -> Claim:
    """The claim after one unit with these moves."""
    with stores.ledger.unit(claim, durable=False) as unit:
        for stage, work in moves:
            unit.keep(stage, work)
    for move in moves:
        claim = claim.at(*move)
    return claim


class KeepingSuite(Exam):
    """`Unit.keep`, and `Unit.settle` from before persist."""

    def test_the_claim_goes_on_at_the_stage_it_was_kept_to(
        self, given: Given, stores: Stores
    ) -> None:
        claim = given.claimed("t1")

        later = kept(stores, claim, (Stage.DISPATCH, WORK))

        turn = given.turn("t1")
        assert (turn.stage, turn.lease_owner) == (Stage.DISPATCH, claim.lease_owner)
        assert (turn.fence, turn.ready_at, turn.turn_index) == (claim.turn.fence, None, 0)
        assert given.refused(later.wake).reason == "owned"
        given.passed(later)
        assert given.turn("t1").stage is Stage.PERSIST

    def test_the_stage_before_takes_no_writes_any_more(self, given: Given, stores: Stores) -> None:
        """[O 15.5 I4]"""
        claim = given.claimed("t1")
        kept(stores, claim, (Stage.DRIFT, WORK))

        with pytest.raises(LeaseLost), stores.ledger.unit(claim, durable=True) as unit:
            unit.add_events([NewEvent(type="late")])

        assert given.events("t1") == []

    def test_several_moves_in_one_unit_are_the_last_one(self, given: Given, stores: Stores) -> None:
        claim = given.claimed("t1")
        found = TurnWork(turn_index=0, lock_waits=1)

        kept(stores, claim, (Stage.DRIFT, WORK), (Stage.LOCK, WORK), (Stage.WINDOW, found))

        taken = given.granted(stores.ledger.hand_back(claim) or claim.wake)
        assert (taken.turn.stage, taken.work) == (Stage.WINDOW, found)

    @pytest.mark.parametrize(("first", "index"), [(WORK, 0), (REFUSED, None)])
    def test_a_turn_has_its_place_unless_load_itself_refuses_it(
        self, given: Given, stores: Stores, first: TurnWork, index: int | None
    ) -> None:
        """The first move says what load found, whatever a later stage decides in the same unit."""
        claim = given.claimed("t1")

        later = kept(stores, claim, (Stage.DRIFT, first), (Stage.PERSIST, REFUSED))
        given.persisted(later, FAILED)

        assert given.turn("t1").turn_index == index
        (ended,) = stores.ledger.events(id_of("t1"))
        assert ended.payload["turnIndex"] == index

    def test_keeping_a_turn_counts_as_progress(self, given: Given, stores: Stores) -> None:
        """[DESIGN 6, Attempts]"""
        given.claimed("t1", lease=EXPIRED)
        (wake,) = stores.ledger.take_over_expired(3)
        claim = given.granted(wake)
        assert claim.turn.attempts == 1

        later = kept(stores, claim, (Stage.DRIFT, WORK))

        assert (given.turn("t1").attempts, later.turn.attempts) == (0, 0)

    def test_a_kept_turn_expires_as_any_owned_one(self, given: Given, stores: Stores) -> None:
        claim = given.claimed("t1", lease=EXPIRED)
        kept(stores, claim, (Stage.DISPATCH, WORK))

        (wake,) = stores.ledger.take_over_expired(3)

        assert (wake.stage, wake.fence) == (Stage.DISPATCH, claim.turn.fence + 1)

    # -- whoever asks for the turn, and not for a stage of it

    def test_the_first_claim_renews_and_gives_back_what_was_kept(
        self, given: Given, stores: Stores
    ) -> None:
        """Housekeeping may not have heard of the move yet."""
        claim = given.claimed("t1")
        kept(stores, claim, (Stage.DISPATCH, WORK))

        (renewal,) = stores.ledger.renew([claim], LEASE)
        back = stores.ledger.hand_back(claim)

        assert renewal.renewed
        assert back == Wake(turn_id=id_of("t1"), stage=Stage.DISPATCH, fence=claim.turn.fence + 1)

    def test_a_parent_that_knows_the_first_stage_alone_announces_its_childs_death(
        self, given: Given, stores: Stores
    ) -> None:
        """[DESIGN 6] The message of `load` is all that the parent has seen."""
        claim = given.claimed("t1")
        kept(stores, claim, (Stage.DISPATCH, WORK))

        wake = stores.ledger.take_over(claim.wake, process_id="host:1", max_attempts=3)

        assert wake is not None
        assert (wake.stage, wake.fence) == (Stage.DISPATCH, claim.turn.fence + 1)

    def test_a_death_before_the_stage_where_the_turn_stands_is_none_of_its(
        self, given: Given, stores: Stores
    ) -> None:
        claim = given.claimed("t1", stage=Stage.DRIFT)
        ahead = claim.wake.model_copy(update={"stage": Stage.DISPATCH})

        assert stores.ledger.take_over(ahead, process_id="host:1", max_attempts=3) is None

    # -- an outcome from before persist

    def test_an_outcome_is_refused_once_the_turn_was_cancelled(
        self, given: Given, stores: Stores
    ) -> None:
        """[DESIGN 5] A cancellation is honoured until persist claims; in place, nobody does."""
        claim = given.claimed("t1", stage=Stage.DISPATCH)
        assert stores.ledger.request_cancel(id_of("t1"), Owner()) == "requested"

        self._is_refused(given, stores, claim)

    def test_an_outcome_is_refused_once_the_deadline_has_passed(
        self, given: Given, stores: Stores
    ) -> None:
        """[DESIGN 10]"""
        claim = given.claimed("t1", stage=Stage.DISPATCH, deadline=datetime(2020, 1, 1, tzinfo=UTC))

        self._is_refused(given, stores, claim)

    def test_an_outcome_that_nobody_stopped_is_committed(
        self, given: Given, stores: Stores
    ) -> None:
        claim = given.claimed("t1", stage=Stage.DISPATCH, deadline=datetime(2099, 1, 1, tzinfo=UTC))

        with stores.ledger.unit(claim, durable=True) as unit:
            unit.keep(Stage.PERSIST, WORK)
            unit.settle(ANSWERED, unless_stopped=True)
            unit.keep(Stage.COMPACT, WORK)

        turn = given.turn("t1")
        assert (turn.status, turn.stage) == (TurnStatus.AWAITING_INPUT, Stage.COMPACT)
        assert turn.lease_owner == claim.lease_owner
        assert stores.ledger.request_cancel(id_of("t1"), Owner()) == "too-late"

    def _is_refused(self, given: Given, stores: Stores, claim: Claim) -> None:
        before = given.turn("t1")
        with pytest.raises(StopAsked):
            _answer(stores, claim)
        assert given.turn("t1") == before
        assert (given.events("t1"), stores.ledger.settled([id_of("t1")])) == ([], [])


def _answer(stores: Stores, claim: Claim) -> None:
    with stores.ledger.unit(claim, durable=True) as unit:
        unit.add_events([NewEvent(type="said")])
        unit.settle(ANSWERED, unless_stopped=True)
        unit.hand_over(Stage.COMPACT, WORK)
