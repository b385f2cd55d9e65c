"""Taking the right to run a stage. [DESIGN 5, Claim]."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

from turnchain.orchestrator_core.contracts import Claim, Stage, TurnStatus, TurnWork, Wake
from turnchain.orchestrator_core.ports import Ledger
from turnchain.stores.conformance.exam import LEASE, Exam, Given, id_of

_DEADLINES = (
    ("past", datetime(2000, 1, 1, tzinfo=UTC)),
    ("future", datetime(2200, 1, 1, tzinfo=UTC)),
)


class ClaimingSuite(Exam):
    """`Ledger.claim`."""

    def test_a_ready_stage_is_granted_to_who_asks(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 5, Claim]."""
        wake = given.admitted("t1")

        claim = ledger.claim(wake, "host:1/7", LEASE)

        assert isinstance(claim, Claim)
        assert (claim.lease_owner, claim.wake) == ("host:1/7", wake)
        assert claim.turn == given.turn("t1")
        assert claim.turn.lease_owner == "host:1/7"
        assert claim.turn.lease_expires_at is not None
        assert claim.work == TurnWork()

    def test_an_owned_stage_is_not_granted(self, given: Given) -> None:
        """[DESIGN 6] The same message twice."""
        wake = given.admitted("t1")
        given.granted(wake)

        assert given.refused(wake).reason == "owned"

    def test_an_expired_lease_is_not_taken_by_a_claim(self, given: Given) -> None:
        """[DESIGN 6] Only a takeover, which counts an attempt, takes a turn from its owner."""
        claim = given.claimed("t1", lease=-LEASE)

        assert given.refused(claim.wake).reason == "owned"

    def test_of_many_claims_at_once_one_is_granted(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 1.2] Each message published twice, to two workers."""
        wake = given.admitted("t1")

        with ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(ledger.claim, wake, f"host:{n}/1", LEASE) for n in range(8)]

        assert sum(isinstance(answer.result(), Claim) for answer in asked) == 1

    def test_an_unknown_turn_is_not_granted(self, given: Given) -> None:
        """[DESIGN 5, Message] A hostile message names a turn that never was."""
        wake = Wake(turn_id=id_of("nobody"), stage=Stage.LOAD, fence=0)

        assert given.refused(wake).reason == "unknown"

    def test_a_queued_turn_is_not_granted(self, given: Given) -> None:
        """[DESIGN 5, Admit] Nobody runs before its place in the session."""
        turn = given.accepted("t1").turn

        given.refused(Wake(turn_id=turn.turn_id, stage=turn.stage, fence=turn.fence))

        assert given.turn("t1").status is TurnStatus.QUEUED

    def test_a_done_turn_is_not_granted(self, given: Given) -> None:
        """[DESIGN 6]."""
        given.settled("t1")
        fence = given.turn("t1").fence

        for stage in Stage:
            refusal = given.refused(Wake(turn_id=id_of("t1"), stage=stage, fence=fence))
            assert (refusal.reason, refusal.ahead) == ("done", None)

    def test_a_message_of_an_earlier_stage_shows_the_way_ahead(self, given: Given) -> None:
        """[DESIGN 5, Claim] Whoever advanced the turn may have died before publishing."""
        first = given.admitted("t1")
        following = given.passed(given.granted(first))

        refusal = given.refused(first)

        assert (refusal.reason, refusal.ahead) == ("moved-on", following)

    def test_a_later_stage_that_is_owned_needs_no_message(self, given: Given) -> None:
        """[DESIGN 5, Claim]."""
        first = given.admitted("t1")
        given.granted(given.passed(given.granted(first)))

        refusal = given.refused(first)

        assert (refusal.reason, refusal.ahead) == ("moved-on", None)

    def test_a_message_of_a_stage_to_come_is_not_granted(self, given: Given) -> None:
        """[DESIGN 5, Claim]."""
        wake = given.admitted("t1")

        refusal = given.refused(wake.model_copy(update={"stage": Stage.PERSIST}))

        assert (refusal.reason, refusal.ahead) == ("moved-on", None)

    def test_another_fence_is_not_granted(self, given: Given, ledger: Ledger) -> None:
        """[O 15.5 I4] Nor does a message from before a hand-back come back to life."""
        old = given.admitted("t1")
        new = ledger.hand_back(given.granted(old))

        assert new is not None
        assert given.refused(old).reason == "moved-on"
        assert given.refused(new.model_copy(update={"fence": new.fence + 1})).reason == "moved-on"
        given.granted(new)

    def test_a_parked_turn_is_not_granted(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 5, Where a turn stands]."""
        for name, wait in (("told", None), ("later", LEASE)):
            claim = given.claimed(name, session=name)
            ledger.park(claim, reason="compaction", wait=wait, stage=Stage.LOAD, work=claim.work)
            turn = given.turn(name)
            wake = Wake(turn_id=turn.turn_id, stage=turn.stage, fence=turn.fence)

            assert given.refused(wake).reason == "parked"

    def test_each_stage_gets_what_the_one_before_found_out(self, given: Given) -> None:
        """[DESIGN 4] Handed on in the ledger, never in a message."""
        work = TurnWork(turn_index=0, head_signature="sig", lock_waits=2)

        wake = given.passed(given.claimed("t1"), work)

        assert given.granted(wake).work == work

    def test_a_changed_claim_changes_nothing_stored(self, given: Given, ledger: Ledger) -> None:
        """[O 15.2 G24]."""
        claim = given.claimed("t1", state={"slots": []})

        claim.request.state["slots"].append("x")
        again = ledger.hand_back(claim)

        assert again is not None
        assert given.granted(again).request.state == {"slots": []}

    def test_a_claim_says_whether_it_is_late(self, given: Given) -> None:
        """[DESIGN 5] By the store's clock, in the statement that grants it."""
        past, future = (
            given.admitted(name, session=name, deadline=when) for name, when in _DEADLINES
        )
        without = given.admitted("without", session="without")

        assert given.granted(past).late
        assert not given.granted(future).late
        assert not given.granted(without).late
