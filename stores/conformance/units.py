"""One transaction under one claim: all of it, once, or nothing. [DESIGN 5, O 15.1 G4, G7]."""

from __future__ import annotations

import pytest

from turnchain.orchestrator_core.contracts import (
    Claim,
    NewEvent,
    Stage,
    TurnStatus,
    TurnWork,
    Wake,
)
from turnchain.orchestrator_core.contracts.events import terminal_event
from turnchain.orchestrator_core.errors import LeaseLost, TurnConflictError
from turnchain.orchestrator_core.ports import Ledger, Unit
from turnchain.stores.conformance.exam import (
    ANSWERED,
    EXPIRED,
    FAILED,
    Exam,
    Given,
    Stores,
    checkpoint_of,
    id_of,
    session_of,
    stored,
)
from turnchain.stores.conformance.snapshots import iteration_of, run_of


class UnitsSuite(Exam):
    """`Ledger.unit` and `Unit`."""

    # -- all or nothing

    def test_nothing_is_written_before_the_block_ends(self, given: Given, stores: Stores) -> None:
        """[O 15.1 G4]."""
        claim = given.claimed("t1", stage=Stage.PERSIST)
        before = given.turn("t1")

        with stores.ledger.unit(claim, durable=True) as unit:
            _write_everything(claim, unit, stores)
            assert unit.claim == claim
            assert given.turn("t1") == before
            assert _is_untouched(given, stores)

        assert given.turn("t1").stage is Stage.COMPACT
        assert stores.checkpoints.load(session_of("s")) is not None
        assert stores.snapshots.list() == [claim.turn.run_id]
        assert given.outcome("t1").status is TurnStatus.AWAITING_INPUT
        assert given.events("t1") == ["test.happened", terminal_event(TurnStatus.AWAITING_INPUT)]

    def test_a_block_that_raises_writes_nothing(self, given: Given, stores: Stores) -> None:
        """[O 15.1 G4]."""
        claim = given.claimed("t1", stage=Stage.PERSIST)
        before = given.turn("t1")

        with pytest.raises(ZeroDivisionError):
            _write_everything_and_raise(claim, stores)

        assert given.turn("t1") == before
        assert _is_untouched(given, stores)

    @pytest.mark.parametrize("lost_by", ["takeover", "hand back", "park", "hand over"])
    def test_a_lost_lease_writes_nothing(self, given: Given, stores: Stores, lost_by: str) -> None:
        """[O 15.1 G7, O 15.5 I4] In none of the three stores."""
        claim = given.claimed("t1", stage=Stage.PERSIST, lease=EXPIRED)
        _lose(claim, lost_by, given)
        before = given.turn("t1")

        with pytest.raises(LeaseLost), stores.ledger.unit(claim, durable=True) as unit:
            _write_everything(claim, unit, stores)

        assert given.turn("t1") == before
        assert _is_untouched(given, stores)

    def test_a_new_owner_of_the_stage_shuts_the_old_one_out(
        self, given: Given, stores: Stores
    ) -> None:
        """[O 15.5 I4] A process that was stopped for a while wakes up and writes."""
        old = given.claimed("t1", stage=Stage.PERSIST, lease=EXPIRED)
        (wake,) = stores.ledger.take_over_expired(3)
        new = given.granted(wake)

        with pytest.raises(LeaseLost), stores.ledger.unit(old, durable=True) as unit:
            _write_everything(old, unit, stores)

        given.persisted(new)
        assert given.outcome("t1") == stored(ANSWERED)

    def test_a_taken_index_undoes_the_whole_unit(self, given: Given, stores: Stores) -> None:
        """[O 10.1.2] Another turn's checkpoint stands there: typed, and nothing written."""
        given.settled("t1")
        claim = given.claimed("t2", stage=Stage.PERSIST)
        before = given.turn("t2")

        with pytest.raises(TurnConflictError):
            given.persisted(claim.model_copy(update={"work": TurnWork(turn_index=0)}))

        assert given.turn("t2") == before
        assert given.ledger.settled([id_of("t2")]) == []
        assert given.events("t2") == []
        head = stores.checkpoints.load(session_of("s"))
        assert head is not None
        assert head.turn_id == id_of("t1")

    # -- hand over

    @pytest.mark.parametrize("durable", [True, False])
    def test_a_hand_over_leaves_the_next_stage_ready(
        self, given: Given, ledger: Ledger, *, durable: bool
    ) -> None:
        """[DESIGN 5, Claim] Without an owner, and under the same fence."""
        claim = given.claimed("t1")

        with ledger.unit(claim, durable=durable) as unit:
            unit.hand_over(Stage.DRIFT, TurnWork(turn_index=0))

        turn = given.turn("t1")
        assert (turn.stage, turn.fence) == (Stage.DRIFT, claim.turn.fence)
        assert (turn.lease_owner, turn.lease_expires_at) == (None, None)
        assert turn.ready_at is not None
        assert turn.turn_index == 0
        given.granted(Wake(turn_id=turn.turn_id, stage=turn.stage, fence=turn.fence))

    def test_work_stays_unless_it_is_replaced(self, given: Given) -> None:
        """[DESIGN 4]."""
        work = TurnWork(turn_index=0, head_signature="sig")
        claim = given.granted(given.passed(given.claimed("t1"), work))

        claim = given.granted(given.passed(claim))

        assert claim.work == work

    def test_a_stage_can_be_skipped(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 5] A turn that was refused goes on at persist."""
        claim = given.claimed("t1")
        refused = TurnWork(turn_index=0, outcome=FAILED)

        with ledger.unit(claim, durable=False) as unit:
            unit.hand_over(Stage.PERSIST, refused)

        turn = given.turn("t1")
        claim = given.granted(Wake(turn_id=turn.turn_id, stage=Stage.PERSIST, fence=turn.fence))
        assert claim.work == refused

    def test_a_done_turn_has_no_owner_and_is_never_woken(
        self, given: Given, ledger: Ledger
    ) -> None:
        """[DESIGN 5, Where a turn stands]."""
        given.settled("t1")

        turn = given.turn("t1")
        assert (turn.stage, turn.lease_owner, turn.ready_at) == (Stage.DONE, None, None)
        assert ledger.rewake(EXPIRED, EXPIRED) == []
        assert ledger.take_over_expired(3) == []

    # -- attempts

    def test_progress_and_hand_over_reset_the_attempts(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 6, Attempts]."""
        claim = _taken_over_claim(given, "t1", session="s1")
        with ledger.unit(claim, durable=True) as unit:
            unit.mark_progress()
        assert (given.turn("t1").attempts, given.turn("t1").takeovers) == (0, 1)
        assert given.turn("t1").lease_owner == claim.lease_owner

        claim = _taken_over_claim(given, "t2", session="s2")
        given.passed(claim)
        assert (given.turn("t2").attempts, given.turn("t2").takeovers) == (0, 1)

    # -- events

    def test_events_are_numbered_on_without_gaps(self, given: Given, ledger: Ledger) -> None:
        """[O 15.4 G43] Over units, stages and takeovers, and a unit that failed takes no number."""
        claim = given.claimed("t1", lease=EXPIRED)
        with ledger.unit(claim, durable=False) as unit:
            unit.add_events([NewEvent(type="a", payload={"n": [1]}), NewEvent(type="b")])
            unit.add_events([])
            unit.add_events([NewEvent(type="c")])
        (wake,) = ledger.take_over_expired(3)
        with pytest.raises(LeaseLost), ledger.unit(claim, durable=False) as unit:
            unit.add_events([NewEvent(type="lost")])
        with ledger.unit(given.granted(wake), durable=False) as unit:
            unit.add_events([NewEvent(type="d")])

        events = ledger.events(id_of("t1"))

        assert [(event.seq, event.type) for event in events] == [
            (1, "a"),
            (2, "b"),
            (3, "c"),
            (4, "d"),
        ]
        assert events[0].payload == {"n": [1]}
        assert all(event.turn_id == id_of("t1") and event.at.tzinfo for event in events)


def _write_everything(claim: Claim, unit: Unit, stores: Stores) -> None:
    run = run_of(claim.turn.run_id)
    stores.snapshots.save(run, iteration_of(0), unit)
    stores.checkpoints.append(checkpoint_of(claim, claim.work.turn_index), unit)
    unit.add_events([NewEvent(type="test.happened")])
    unit.settle(ANSWERED)
    unit.hand_over(Stage.COMPACT)


def _write_everything_and_raise(claim: Claim, stores: Stores) -> None:
    with stores.ledger.unit(claim, durable=True) as unit:
        _write_everything(claim, unit, stores)
        raise ZeroDivisionError


def _is_untouched(given: Given, stores: Stores) -> bool:
    written = [
        stores.checkpoints.load(session_of("s")),
        *stores.snapshots.list(),
        *stores.ledger.settled([id_of("t1")]),
        *given.events("t1"),
    ]
    return written == [None]


def _lose(claim: Claim, how: str, given: Given) -> None:
    if how == "takeover":
        assert given.ledger.take_over_expired(3) != []
    elif how == "hand back":
        given.ledger.hand_back(claim)
    elif how == "park":
        given.ledger.park(claim, reason="x", wait=None, stage=Stage.PERSIST, work=claim.work)
    else:
        with given.ledger.unit(claim, durable=True) as unit:
            unit.hand_over(Stage.COMPACT)


def _taken_over_claim(given: Given, turn: str, session: str) -> Claim:
    given.claimed(turn, session=session, lease=EXPIRED)
    (wake,) = given.ledger.take_over_expired(3)
    return given.granted(wake)
