"""Keeping, giving up and losing the right to run a stage. [DESIGN 5, DESIGN 6]."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from turnchain.orchestrator_core.contracts import Owner, Stage, TurnStatus, TurnWork, Wake
from turnchain.orchestrator_core.errors import LeaseLost
from turnchain.orchestrator_core.ports import Ledger
from turnchain.stores.conformance.exam import EXPIRED, LEASE, NOW, Exam, Given, id_of


class OwningSuite(Exam):
    """`Ledger.renew`, `hand_back`, `park` and `take_over`."""

    # -- renew

    def test_renewals_are_answered_one_by_one_in_order(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 6, Housekeeping] One statement for all that a process owns."""
        kept, lost = given.claimed("t1", session="s1"), given.claimed("t2", session="s2")
        ledger.hand_back(lost)
        other = given.claimed("t3", session="s3")

        answers = ledger.renew([lost, kept, other, lost], LEASE)

        assert [answer.renewed for answer in answers] == [False, True, True, False]
        assert ledger.renew([], LEASE) == []

    def test_a_renewed_lease_runs_on(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 6] Owners that come back before anybody took over keep their turn."""
        claim = given.claimed("t1", lease=EXPIRED)

        ledger.renew([claim], LEASE)

        assert ledger.take_over_expired(3) == []
        assert given.turn("t1").lease_owner == claim.lease_owner

    def test_a_lease_that_was_taken_over_is_not_renewed(self, given: Given, ledger: Ledger) -> None:
        """[O 15.1 G7]."""
        claim = given.claimed("t1", lease=EXPIRED)
        ledger.take_over_expired(3)

        (answer,) = ledger.renew([claim], LEASE)

        assert not answer.renewed
        assert given.turn("t1").lease_owner is None

    def test_renewal_tells_of_cancel_and_deadline(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 10]."""
        calm = given.claimed("calm", session="s1", deadline=datetime(2099, 1, 1, tzinfo=UTC))
        late = given.claimed("late", session="s2", deadline=datetime(2001, 1, 1, tzinfo=UTC))
        asked = given.claimed("asked", session="s3")
        ledger.request_cancel(id_of("asked"), Owner())

        answers = ledger.renew([calm, late, asked], LEASE)

        assert [answer.deadline_passed for answer in answers] == [False, True, False]
        assert [answer.cancel_requested for answer in answers] == [False, False, True]

    # -- hand back

    def test_a_turn_handed_back_is_ready_under_the_next_fence(
        self, given: Given, ledger: Ledger
    ) -> None:
        """[DESIGN 6, SIGTERM] At once, and without an attempt."""
        claim = given.claimed("t1", stage=Stage.DISPATCH)

        wake = ledger.hand_back(claim)

        turn = given.turn("t1")
        fence = claim.turn.fence + 1
        assert wake == Wake(turn_id=id_of("t1"), stage=Stage.DISPATCH, fence=fence)
        assert (turn.fence, turn.lease_owner, turn.attempts) == (fence, None, 0)
        assert turn.status is TurnStatus.RUNNING

    def test_a_lost_lease_is_not_handed_back(self, given: Given, ledger: Ledger) -> None:
        """[O 15.1 G7]."""
        claim = given.claimed("t1")
        ledger.hand_back(claim)

        assert ledger.hand_back(claim) is None
        assert given.turn("t1").fence == claim.turn.fence + 1

    # -- park

    def test_a_parked_turn_has_no_owner_and_the_next_fence(
        self, given: Given, ledger: Ledger
    ) -> None:
        """[DESIGN 5, Where a turn stands]."""
        claim = given.claimed("t1", stage=Stage.LOCK)
        work = TurnWork(turn_index=0, lock_waits=1)

        ledger.park(claim, reason="compaction", wait=None, stage=Stage.LOAD, work=work)

        turn = given.turn("t1")
        assert (turn.stage, turn.fence) == (Stage.LOAD, claim.turn.fence + 1)
        assert (turn.lease_owner, turn.ready_at, turn.parked) == (None, None, "compaction")
        assert (turn.status, turn.attempts) == (TurnStatus.RUNNING, 0)

    def test_a_parked_turn_is_ready_after_its_wait(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 5] With what it knew, for its next claim."""
        claim = given.claimed("t1", stage=Stage.LOCK)
        work = TurnWork(turn_index=0, lock_waits=1)
        ledger.park(claim, reason="compaction", wait=NOW, stage=Stage.LOAD, work=work)

        (wake,) = ledger.rewake(LEASE, LEASE)

        assert wake == Wake(turn_id=id_of("t1"), stage=Stage.LOAD, fence=claim.turn.fence + 1)
        assert given.turn("t1").parked is None
        assert given.granted(wake).work == work

    def test_only_the_owner_parks(self, given: Given, ledger: Ledger) -> None:
        """[O 15.1 G7]."""
        claim = given.claimed("t1")
        ledger.hand_back(claim)
        before = given.turn("t1")

        with pytest.raises(LeaseLost):
            ledger.park(claim, reason="x", wait=None, stage=Stage.LOAD, work=claim.work)
        assert given.turn("t1") == before

    # -- a process says that its child died

    def test_a_dead_childs_turn_is_taken_over_without_a_wait(
        self, given: Given, ledger: Ledger
    ) -> None:
        """[DESIGN 6] Though the lease has minutes to run."""
        wake = given.admitted("t1")
        given.granted(wake, process="host:7")

        taken = ledger.take_over(wake, process_id="host:7", max_attempts=3)

        turn = given.turn("t1")
        assert taken == wake.model_copy(update={"fence": wake.fence + 1})
        assert (turn.lease_owner, turn.attempts, turn.takeovers) == (None, 1, 1)

    def test_a_takeover_that_is_not_true_changes_nothing(
        self, given: Given, ledger: Ledger
    ) -> None:
        """[DESIGN 6] Late, doubled or hostile: only the very owner's stage and fence count."""
        wake = given.admitted("t1")
        assert ledger.take_over(wake, process_id="host:1", max_attempts=3) is None
        given.granted(wake, process="host:12")
        before = given.turn("t1")

        lies = [
            ledger.take_over(wake, process_id="host:1", max_attempts=3),
            ledger.take_over(wake, process_id="host:12/1", max_attempts=3),
            ledger.take_over(_moved(wake, fence=9), process_id="host:12", max_attempts=3),
            ledger.take_over(_moved(wake, stage=Stage.DRIFT), process_id="host:12", max_attempts=3),
            ledger.take_over(
                _moved(wake, turn_id=id_of("x")), process_id="host:12", max_attempts=3
            ),
        ]

        assert lies == [None] * 5
        assert given.turn("t1") == before

    def test_a_doubled_takeover_counts_once(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 1.2]."""
        claim = given.claimed("t1")
        ledger.take_over(claim.wake, process_id="host:1", max_attempts=3)

        assert ledger.take_over(claim.wake, process_id="host:1", max_attempts=3) is None
        assert given.turn("t1").attempts == 1

    def test_a_takeover_message_can_be_the_last(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 6, Attempts] It counts as an expiry."""
        claim = given.claimed("t1")

        assert ledger.take_over(claim.wake, process_id="host:1", max_attempts=1) is None
        assert given.turn("t1").status is TurnStatus.DEAD


def _moved(wake: Wake, **fields: object) -> Wake:
    return wake.model_copy(update=fields)
