"""What producers and stages read. [DESIGN 11]."""

from __future__ import annotations

from datetime import timedelta

import pytest

from turnchain.orchestrator_core.contracts import Claim, NewEvent, Owner, Stage
from turnchain.orchestrator_core.ports import Ledger
from turnchain.stores.conformance.exam import (
    FAILED,
    NOW,
    TENANT_A,
    TENANT_B,
    Exam,
    Given,
    id_of,
    session_of,
)


class ReadingSuite(Exam):
    """`Ledger.get`, `settled`, `events`, `listen` and `lock_wait`."""

    def test_a_turn_is_shown_to_its_owner_and_to_operators(
        self, given: Given, ledger: Ledger
    ) -> None:
        """[DESIGN 2]."""
        turn = given.accepted("t1", owner=TENANT_A).turn

        assert ledger.get(id_of("t1")) == turn
        assert ledger.get(id_of("t1"), TENANT_A) == turn
        for owner in (TENANT_B, Owner(), Owner(user_id="ann")):
            assert ledger.get(id_of("t1"), owner) is None
        assert ledger.get(id_of("nobody")) is None

    def test_settled_gives_those_that_have_an_outcome(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 11] Many turns in one question, in whatever order."""
        given.settled("t1", session="s1")
        given.settled("t2", session="s2", outcome=FAILED)
        given.claimed("t3", session="s3")

        found = ledger.settled([id_of(name) for name in ("t3", "t2", "nobody", "t1")])

        assert {one.turn.turn_id: one.outcome.status for one in found} == {
            id_of("t1"): given.turn("t1").status,
            id_of("t2"): FAILED.status,
        }
        assert ledger.settled([]) == []

    def test_events_are_read_on_from_where_a_reader_stopped(
        self, given: Given, ledger: Ledger
    ) -> None:
        """[O 9.3.8]."""
        claim = given.claimed("t1")
        with ledger.unit(claim, durable=False) as unit:
            unit.add_events([NewEvent(type=f"e{n}") for n in range(1, 6)])

        assert [event.seq for event in ledger.events(id_of("t1"))] == [1, 2, 3, 4, 5]
        assert [event.seq for event in ledger.events(id_of("t1"), after=3)] == [4, 5]
        assert [event.seq for event in ledger.events(id_of("t1"), after=1, limit=2)] == [2, 3]
        assert ledger.events(id_of("t1"), after=5) == []
        assert ledger.events(id_of("nobody")) == []

    # -- listening

    def test_a_listener_hears_of_settled_turns(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 11] Each once."""
        first = given.claimed("t1", session="s1", stage=Stage.PERSIST)
        given.accepted("t2", session="s2")

        with ledger.listen() as listener:
            given.persisted(first)
            ledger.request_cancel(id_of("t2"), Owner())
            heard: set[str] = set()
            for _ in range(100):  # a server may tell of them one by one
                heard |= listener.wait(timedelta(milliseconds=100))
                if len(heard) == 2:
                    break
            again = listener.wait(NOW)

        assert heard == {id_of("t1"), id_of("t2")}
        assert again == frozenset()

    def test_a_listener_hears_nothing_of_what_was_not_committed(
        self, given: Given, ledger: Ledger
    ) -> None:
        """[O 15.5 I12]."""
        claim = given.claimed("t1", stage=Stage.PERSIST)

        with ledger.listen() as listener:
            with pytest.raises(ZeroDivisionError):
                _settle_and_raise(ledger, claim)
            heard = listener.wait(timedelta(milliseconds=50))

        assert heard == frozenset()

    def test_each_listener_hears_for_itself(self, given: Given, ledger: Ledger) -> None:
        """[DESIGN 11] Web processes wait for turns of their own."""
        given.accepted("t1")

        with ledger.listen() as one, ledger.listen() as other:
            ledger.request_cancel(id_of("t1"), Owner())

            assert one.wait(timedelta(seconds=10)) == {id_of("t1")}
            assert other.wait(timedelta(seconds=10)) == {id_of("t1")}

    def test_a_session_that_nobody_compacts_is_free(self, given: Given, ledger: Ledger) -> None:
        """[O 5.4]."""
        assert ledger.lock_wait(session_of("s")) is None
        given.settled("t1")
        assert ledger.lock_wait(session_of("s")) is None


def _settle_and_raise(ledger: Ledger, claim: Claim) -> None:
    with ledger.unit(claim, durable=True) as unit:
        unit.settle(FAILED)
        raise ZeroDivisionError
