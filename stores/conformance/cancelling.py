"""Stopping a turn from outside. [DESIGN 10]."""

from __future__ import annotations

from datetime import timedelta

import pytest

from turnchain.orchestrator_core.contracts import Owner, Stage, TurnStatus, Wake
from turnchain.orchestrator_core.contracts.events import TURN_CANCELLED
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


class CancellingSuite(Exam):
    """`Ledger.request_cancel`."""

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
