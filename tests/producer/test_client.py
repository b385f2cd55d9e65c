"""What the client does around the ledger: its failures after a commit are not the commit's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from turnchain import SessionClient
from turnchain.orchestrator_core.contracts import Wake
from turnchain.orchestrator_core.errors import StoreUnavailableError, UnknownOrchestratorError
from turnchain.stores import memory
from turnchain.stores.memory import MemoryLedger
from turnchain.workers.clock import SystemClock, new_turn_id


class AwayAfterCommit(MemoryLedger):
    """Takes what it is given, and is away when asked what may run."""

    is_away = True

    def admit(self, max_in_flight: int | None = None) -> list[Wake]:
        if self.is_away:
            raise StoreUnavailableError("away")
        return super().admit(max_in_flight)


class Outbox:
    def __init__(self) -> None:
        self.wakes: list[Wake] = []

    def publish(self, wakes: Sequence[Wake]) -> None:
        self.wakes += wakes


class Desk:
    def __init__(self, **options: Any) -> None:
        self.ledger = AwayAfterCommit(memory.connect().tables)
        self.outbox = Outbox()
        self.committed: list[Callable[[], None]] = []
        self.client = SessionClient(
            self.ledger,
            self.outbox,
            SystemClock(),
            new_turn_id,
            lambda connection, then: self.committed.append(then),
            **options,
        )

    def enqueue(self, session: str = "s") -> Any:
        return self.client.enqueue("bot", "hi", session_id=session, history=[])

    def commit(self) -> None:
        for then in self.committed:
            then()


def test_nothing_is_published_before_the_commit() -> None:
    desk = Desk()
    desk.ledger.is_away = False

    turn = desk.enqueue()
    assert desk.outbox.wakes == []
    desk.commit()

    assert [wake.turn_id for wake in desk.outbox.wakes] == [turn.turn_id]


def test_a_ledger_that_goes_away_after_the_commit_does_not_make_it_look_failed() -> None:
    """What broke: enqueue raised though the turn was accepted, so that a caller without a key enqueued it twice."""
    desk = Desk()

    turn = desk.enqueue()
    desk.commit()

    assert turn.get() is not None


def test_a_ledger_that_goes_away_after_a_cancellation_does_not_hide_its_receipt() -> None:
    desk = Desk()
    turn = desk.enqueue()

    assert turn.cancel() == "cancelled"


def test_who_publishes_by_hand_is_told_that_the_ledger_is_away() -> None:
    desk = Desk()
    turn = desk.enqueue()

    for publish in (turn.publish, desk.client.publish):
        with pytest.raises(StoreUnavailableError):
            publish()


def test_publishing_again_and_again_does_no_harm() -> None:
    desk = Desk()
    desk.ledger.is_away = False
    turn = desk.enqueue()

    for _ in range(3):
        turn.publish()

    assert [wake.turn_id for wake in desk.outbox.wakes] == [turn.turn_id]


def test_a_cancelled_turn_lets_the_next_one_through() -> None:
    desk = Desk(max_in_flight=1)
    desk.ledger.is_away = False
    first = desk.enqueue("one")
    second = desk.enqueue("two")

    first.cancel()

    assert [wake.turn_id for wake in desk.outbox.wakes] == [second.turn_id]


def test_a_cap_on_turns_in_flight_is_kept() -> None:
    desk = Desk(max_in_flight=2)
    desk.ledger.is_away = False
    for session in ("one", "two", "three"):
        desk.enqueue(session)

    desk.client.publish()

    assert len(desk.outbox.wakes) == 2


def test_only_the_names_given_are_taken() -> None:
    desk = Desk(known=["support"])

    with pytest.raises(UnknownOrchestratorError, match="support"):
        desk.enqueue()


def test_a_turn_says_its_id() -> None:
    turn = Desk().enqueue()

    assert repr(turn) == f"Turn({turn.turn_id!r})"
