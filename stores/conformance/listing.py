"""What operators list. [DESIGN 11]."""

from __future__ import annotations

from typing import Any, Final

import pytest

from turnchain.orchestrator_core.contracts import (
    Outcome,
    Owner,
    SessionFilter,
    SessionKey,
    SessionSummary,
    Stage,
    TurnFilter,
    TurnStatus,
    Wake,
)
from turnchain.orchestrator_core.ports import Inspection, Ledger
from turnchain.stores.conformance.exam import (
    BOT,
    FAILED,
    TENANT_A,
    Exam,
    Given,
    Stores,
    id_of,
    request_of,
    session_of,
)

EVERYTHING: Final = TurnFilter()
OTHER: Final = SessionKey(orchestrator_name="other", session_id="s")


class ListingSuite(Exam):
    """`Inspection.turns` and `sessions`."""

    @pytest.fixture
    def inspection(self, stores: Stores) -> Inspection:
        """The read side under examination."""
        return stores.inspection

    # -- turns

    def test_turns_are_listed_the_last_accepted_first(
        self, given: Given, inspection: Inspection
    ) -> None:
        """[DESIGN 11] Of all orchestrators together, as the ledger has them."""
        given.accepted("t1")
        _accept_for(OTHER, "t2", given.ledger)
        given.accepted("t3", session="s2")

        page = inspection.turns(EVERYTHING, 9)

        assert page.turns == (given.turn("t3"), given.turn("t2"), given.turn("t1"))
        assert page.now >= given.turn("t3").accepted_at

    def test_pages_follow_one_another_without_a_gap(
        self, given: Given, inspection: Inspection
    ) -> None:
        """[DESIGN 11] Turns that come meanwhile move no page."""
        for n in range(5):
            given.accepted(f"t{n}", session=f"s{n}")

        first = inspection.turns(EVERYTHING, 2).turns
        given.accepted("meanwhile", session="s9")
        second = inspection.turns(TurnFilter(before=first[-1].seq), 2).turns
        third = inspection.turns(TurnFilter(before=second[-1].seq), 2).turns

        ids = [turn.turn_id for page in (first, second, third) for turn in page]
        assert ids == [id_of(f"t{n}") for n in (4, 3, 2, 1, 0)]

    def test_turns_are_found_by_orchestrator_and_session(
        self, given: Given, inspection: Inspection
    ) -> None:
        """[DESIGN 2] A session is both; an id alone may be that of several."""
        given.accepted("t1")
        given.accepted("t2", session="s2")
        _accept_for(OTHER, "t3", given.ledger)

        def found(**wanted: Any) -> list[str]:
            return [turn.turn_id for turn in inspection.turns(TurnFilter(**wanted), 9).turns]

        assert found(session_id="s") == [id_of("t3"), id_of("t1")]
        assert found(session_id="s", orchestrator_name=BOT) == [id_of("t1")]
        assert found(orchestrator_name="other") == [id_of("t3")]
        assert found(orchestrator_name="nobody") == found(session_id="nobody") == []

    @pytest.mark.parametrize(
        "status",
        [
            TurnStatus.QUEUED,
            TurnStatus.RUNNING,
            TurnStatus.AWAITING_INPUT,
            TurnStatus.FAILED,
            TurnStatus.CANCELLED,
            TurnStatus.MAX_ITERATIONS,
        ],
    )
    def test_turns_are_found_by_status(
        self, given: Given, ledger: Ledger, inspection: Inspection, status: TurnStatus
    ) -> None:
        """[DESIGN 4, Statuses] Alone, and with each other filter."""
        given.settled("awaiting-input", session="s1")
        given.settled("failed", session="s2", outcome=FAILED)
        given.accepted("cancelled", session="s3")
        ledger.request_cancel(id_of("cancelled"), Owner())
        given.claimed("running", session="s4")
        given.accepted("queued", session="s5")
        compacting = given.claimed("max-iterations", session="s6", stage=Stage.PERSIST)
        given.persisted(compacting, Outcome(status=TurnStatus.MAX_ITERATIONS))
        turn = given.turn(status.value)

        wanted = [
            TurnFilter(status=status),
            TurnFilter(status=status, orchestrator_name=BOT),
            TurnFilter(status=status, session_id=turn.session.session_id),
            TurnFilter(status=status, before=turn.seq + 1),
        ]
        unwanted = [
            TurnFilter(status=status, orchestrator_name="other"),
            TurnFilter(status=status, session_id="nobody"),
            TurnFilter(status=status, before=turn.seq),
            TurnFilter(status=TurnStatus.QUARANTINED),
        ]

        assert [inspection.turns(each, 9).turns for each in wanted] == [(turn,)] * len(wanted)
        assert [inspection.turns(each, 9).turns for each in unwanted] == [()] * len(unwanted)

    # -- sessions

    def test_sessions_are_listed_the_last_begun_first(
        self, given: Given, inspection: Inspection
    ) -> None:
        """[DESIGN 4] With what has been answered, what waits, and the turn that came last."""
        given.settled("t1", session="s1", owner=TENANT_A)
        given.settled("t2", session="s2", outcome=FAILED)
        given.claimed("t3", session="s1", stage=Stage.DISPATCH, owner=TENANT_A)
        given.accepted("t4", session="s1", owner=TENANT_A)
        given.accepted("t5", session="not begun")

        page = inspection.sessions(SessionFilter(), 9)

        second, first = page.sessions
        assert (first.session, second.session) == (session_of("s1"), session_of("s2"))
        assert (first.owner, second.owner) == (TENANT_A, Owner())
        assert (first.head_turn_index, second.head_turn_index) == (0, -1)
        assert (first.queued, second.queued) == (1, 0)
        assert (first.last_turn, second.last_turn) == (given.turn("t4"), given.turn("t2"))
        assert first.created_at < second.created_at < page.now

    def test_sessions_are_paged_and_found_like_turns(
        self, given: Given, ledger: Ledger, inspection: Inspection
    ) -> None:
        """[DESIGN 2]."""
        for n in range(4):
            given.settled(f"t{n}", session=f"s{n}")
        _accept_for(OTHER, "t9", ledger)
        given.passed(given.granted(_admitted(ledger, "t9")))

        def found(limit: int = 9, **wanted: Any) -> list[SessionSummary]:
            return list(inspection.sessions(SessionFilter(**wanted), limit).sessions)

        first = found(3)
        rest = found(before=first[-1].created_at)
        assert [each.session.session_id for each in first + rest] == ["s", "s3", "s2", "s1", "s0"]
        assert [each.session for each in found(orchestrator_name="other")] == [OTHER]
        assert [each.session for each in found(session_id="s2")] == [session_of("s2")]
        assert found(session_id="s2", orchestrator_name="other") == found(session_id="x") == []


def _accept_for(session: SessionKey, turn: str, ledger: Ledger) -> None:
    request = request_of(turn).model_copy(update={"session": session})
    ledger.accept(request, request_hash=f"hash of {turn}")


def _admitted(ledger: Ledger, turn: str) -> Wake:
    wake = ledger.admit_turn(id_of(turn))
    assert wake is not None
    return wake
