"""Stopping a turn from outside: somebody cancels it, or its time is up. [DESIGN 10]."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from turnchain.orchestrator_core.contracts import Claim, Owner, Stage, TurnStatus, Wake
from turnchain.orchestrator_core.contracts.events import TURN_CANCELLED, TURN_FAILED
from turnchain.orchestrator_core.ports import Ledger
from turnchain.stores.conformance.exam import (
    FAILED,
    LEASE,
    LONG,
    TENANT_A,
    TENANT_B,
    Exam,
    Given,
    id_of,
)

PAST = datetime(2001, 1, 1, tzinfo=UTC)
FUTURE = datetime(2099, 1, 1, tzinfo=UTC)


class CancellingSuite(Exam):
    """`Ledger.request_cancel` and `expire_deadlines`."""

    def test_a_queued_turn_ends_at_once(self, given: Given, ledger: Ledger) -> None:
        """[O 15.1 G19] It takes no index."""
        given.accepted("t1")

        assert ledger.request_cancel(id_of("t1"), Owner()) == "cancelled"

        turn = given.turn("t1")
        assert (turn.status, turn.stage) == (TurnStatus.CANCELLED, Stage.DONE)
        assert (given.outcome("t1").error or {})["code"] == "ORCHESTRATOR_CANCELLED"
        assert given.events("t1") == [TURN_CANCELLED]
        assert ledger.admit(9) == []
        assert given.accepted("t2", expected_turn_index=0).created

    def test_the_turn_behind_a_cancelled_one_runs(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 1.4]."""
        given.accepted("t1")
        given.accepted("t2")

        ledger.request_cancel(id_of("t1"), Owner())

        assert [wake.turn_id for wake in ledger.admit(9)] == [id_of("t2")]

    def test_an_owner_is_asked_to_stop(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 10] It reads so with its next renewal, and the turn goes on until then."""
        claim = given.claimed("t1", stage=Stage.DISPATCH)

        assert ledger.request_cancel(id_of("t1"), Owner()) == "requested"

        turn = given.turn("t1")
        assert (turn.status, turn.lease_owner) == (TurnStatus.RUNNING, claim.lease_owner)
        assert turn.cancel_requested_at is not None
        (renewal,) = ledger.renew([claim], LEASE)
        assert (renewal.renewed, renewal.cancel_requested) == (True, True)

    def test_asking_again_changes_nothing(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 1]."""
        given.claimed("t1")
        ledger.request_cancel(id_of("t1"), Owner())
        before = given.turn("t1")

        assert ledger.request_cancel(id_of("t1"), Owner()) == "requested"
        assert given.turn("t1") == before

    def test_the_next_claim_sees_the_request(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 10] A ready turn is ended by whoever takes it next."""
        wake = given.ready("t1", Stage.DISPATCH)

        assert ledger.request_cancel(id_of("t1"), Owner()) == "requested"

        assert given.granted(wake).turn.cancel_requested_at is not None

    @pytest.mark.parametrize("wait", [LONG, None])
    def test_a_parked_turn_is_made_ready_to_be_ended(
        self, given: Given, ledger: Ledger, wait: timedelta | None
    ) -> None:
        """[DESIGN 10] Nothing else would wake it up soon."""
        claim = given.claimed("t1")
        ledger.park(claim, reason="x", wait=wait, stage=Stage.LOAD, work=claim.work)

        assert ledger.request_cancel(id_of("t1"), Owner()) == "requested"

        turn = given.turn("t1")
        wake = Wake(turn_id=turn.turn_id, stage=turn.stage, fence=turn.fence)
        assert given.granted(wake).turn.cancel_requested_at is not None

    def test_what_is_being_committed_is_too_late_to_stop(
        self, given: Given, ledger: Ledger
    ) -> None:
        """[DESIGN 5] From the moment that persist is claimed."""
        given.claimed("t1", stage=Stage.PERSIST)

        assert ledger.request_cancel(id_of("t1"), Owner()) == "too-late"
        assert given.turn("t1").cancel_requested_at is None

    def test_a_settled_turn_is_too_late_to_stop(self, given: Given, ledger: Ledger) -> None:
        """[O 15.1 G19] Committed wins."""
        compact = given.persisted(given.claimed("t1", session="s1", stage=Stage.PERSIST), FAILED)
        given.settled("t2", session="s2")

        assert ledger.request_cancel(id_of("t1"), Owner()) == "too-late"
        given.granted(compact)
        assert ledger.request_cancel(id_of("t1"), Owner()) == "too-late"
        assert ledger.request_cancel(id_of("t2"), Owner()) == "too-late"
        assert given.turn("t1").status is TurnStatus.FAILED

    def test_only_its_owner_cancels_a_turn(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 2] To others it does not exist."""
        given.accepted("t1", owner=TENANT_A)

        for owner in (TENANT_B, Owner(), Owner(tenant="a")):
            assert ledger.request_cancel(id_of("t1"), owner) == "unknown"
        assert ledger.request_cancel(id_of("nobody"), TENANT_A) == "unknown"
        assert given.turn("t1").status is TurnStatus.QUEUED
        assert ledger.request_cancel(id_of("t1"), TENANT_A) == "cancelled"

    # -- deadlines

    def test_a_turn_past_its_deadline_ends_where_nobody_owns_it(
        self, given: Given, ledger: Ledger
    ) -> None:
        """[DESIGN 10] It covers waiting and running."""
        given.accepted("queued", session="s1", deadline=PAST)
        given.admitted("ready", session="s2", deadline=PAST)
        claim = given.claimed("parked", session="s3", deadline=PAST)
        ledger.park(claim, reason="x", wait=None, stage=Stage.LOAD, work=claim.work)

        ended = ledger.expire_deadlines()

        assert sorted(ended) == sorted(id_of(name) for name in ("queued", "ready", "parked"))
        for name in ("queued", "ready", "parked"):
            turn = given.turn(name)
            assert (turn.status, turn.stage) == (TurnStatus.FAILED, Stage.DONE)
            assert (given.outcome(name).error or {})["code"] == "DEADLINE_EXCEEDED"
            assert given.events(name) == [TURN_FAILED]
        assert ledger.expire_deadlines() == []

    def test_a_deadline_leaves_alone_who_is_owned_settled_or_in_time(
        self, given: Given, ledger: Ledger
    ) -> None:
        """[DESIGN 10] The owner is told with its next renewal."""
        given.accepted("in-time", session="s1", deadline=FUTURE)
        given.accepted("without", session="s2")
        owned = given.claimed("owned", session="s3", deadline=PAST)
        given.persisted(given.claimed("settled", session="s4", stage=Stage.PERSIST, deadline=PAST))

        assert ledger.expire_deadlines() == []
        assert isinstance(_claimed_again(given, owned), Claim)

    def test_a_turn_that_ran_out_of_time_frees_its_session(
        self, given: Given, ledger: Ledger
    ) -> None:
        """[DESIGN 5]."""
        given.admitted("t1", deadline=PAST)
        given.accepted("t2")

        ledger.expire_deadlines()

        assert [wake.turn_id for wake in ledger.admit()] == [id_of("t2")]

    def test_deadlines_end_at_most_the_limit(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 6, Sweep]."""
        for n in range(3):
            given.accepted(f"t{n}", session=f"s{n}", deadline=PAST)

        assert [len(ledger.expire_deadlines(limit=2)) for _ in range(3)] == [2, 1, 0]


def _claimed_again(given: Given, claim: Claim) -> Claim:
    wake: Wake | None = given.ledger.hand_back(claim)
    assert wake is not None
    return given.granted(wake)
