"""How an error is stored, and what comes back."""

from __future__ import annotations

from typing import Any

import pytest

from turnchain.orchestrator_core.contracts import Outcome, TurnStatus, checked_json
from turnchain.orchestrator_core.errors import (
    CancelRequested,
    DeadlinePassed,
    HandBackAsked,
    Interruption,
    InvalidInputError,
    LeaseLost,
    OrchestratorConfigError,
    OrchestratorDriftError,
    SupervisorFailedError,
    TurnchainError,
    from_record,
    scrub,
    to_record,
)


def caused(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


def test_an_error_keeps_its_message_code_and_context() -> None:
    """[O 16.5 T21]."""
    error = OrchestratorDriftError("saved by another", {"session_id": "s1"})

    record = to_record(error)

    assert record == {
        "type": "OrchestratorDriftError",
        "code": "ORCHESTRATOR_DRIFT",
        "category": "drift",
        "message": "saved by another",
        "context": {"session_id": "s1"},
    }
    back = from_record(record)
    assert isinstance(back, OrchestratorDriftError)
    assert (back.message, back.context) == ("saved by another", {"session_id": "s1"})


def test_of_classes_with_one_code_the_named_one_comes_back() -> None:
    assert type(from_record(to_record(InvalidInputError("x")))) is InvalidInputError
    assert type(from_record({"code": "ORCHESTRATOR_CONFIG"})) is OrchestratorConfigError


def test_an_unknown_code_gives_the_base_class() -> None:
    """[O 11.8] Written by a later version."""
    back = from_record({"type": "X", "code": "FROM_THE_FUTURE", "message": "m"})

    assert type(back) is TurnchainError
    assert str(back) == "m"


def test_an_authors_own_class_comes_back_as_what_it_extends() -> None:
    """[DESIGN 4] Reading calls nothing of theirs; its constructor raised out of `result.error`."""

    class CardError(TurnchainError):
        code = "CARD"

        def __init__(self, *, card: int) -> None:
            super().__init__(f"card {card} was refused", {"card": card})

    back = from_record(to_record(CardError(card=7)))

    assert type(back) is TurnchainError
    assert (str(back), back.context) == ("card 7 was refused", {"card": 7})


def test_causes_come_back_with_their_messages() -> None:
    error = caused(SupervisorFailedError("intent 'pay' raised"), ValueError("billing exploded"))

    back = from_record(to_record(error))

    assert isinstance(back.__cause__, SupervisorFailedError)
    assert str(back.__cause__) == "billing exploded"
    assert to_record(error)["cause"]["type"] == "ValueError"


def test_causes_are_kept_five_deep() -> None:
    """[O 11.8] Also where they go in a circle."""
    error = ValueError("round")
    caused(error, error)

    depth, record = 0, to_record(error)
    while "cause" in record:
        depth, record = depth + 1, record["cause"]

    assert depth == 5


def test_an_error_without_a_message_says_what_it_is() -> None:
    assert str(SupervisorFailedError()) == "The supervisor of a turn could not go on."


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ("Authorization: Bearer abc.def-1", "Authorization: Bearer [scrubbed]"),
        ("key sk-abcdefghijklmnop failed", "key [scrubbed] failed"),
        ("postgresql://me:hunter2@host/db", "postgresql://me:[scrubbed]@host/db"),
        ({"api_key": "x", "n": 1}, {"api_key": "[scrubbed]", "n": 1}),
        ({"a": [{"Password": "x"}]}, {"a": [{"Password": "[scrubbed]"}]}),
        ("nothing to hide", "nothing to hide"),
    ],
)
def test_what_looks_like_a_secret_is_not_stored(given: Any, stored: Any) -> None:
    """[O 11.8]."""
    assert scrub(given) == stored
    assert to_record(TurnchainError("m", {"c": given})).get("context") == {"c": stored}


def test_the_message_is_scrubbed_too() -> None:
    record = to_record(ValueError("no login for postgresql://me:hunter2@host/db"))

    assert "hunter2" not in record["message"]


@pytest.mark.parametrize("message", ["nul \x00 here", "half \ud800 pair"])
def test_any_message_can_be_stored(message: str) -> None:
    """An exception that quotes binary data made an outcome that no store would take: the turn died of it."""
    record = to_record(caused(TurnchainError(message, {"text": message}), ValueError(message)))

    assert checked_json("error", record) == record
    assert Outcome(status=TurnStatus.FAILED, error=record).model_dump_json()
    assert record["message"] == message.replace("\x00", "\ufffd").replace("\ud800", "\ufffd")


def test_a_context_that_is_not_json_is_stored_as_text() -> None:
    """An author may raise our errors with any context of theirs."""
    record = to_record(TurnchainError("m", {"ids": {1}, "n": float("nan"), "at": (1, None)}))

    assert record["context"] == {"ids": "{1}", "n": "nan", "at": [1, None]}
    assert checked_json("error", record) == record


@pytest.mark.parametrize("kind", [LeaseLost, CancelRequested, DeadlinePassed, HandBackAsked])
def test_an_interruption_is_no_exception(kind: type[BaseException]) -> None:
    """An intent's `except Exception` must not swallow it."""
    assert issubclass(kind, Interruption)
    assert not issubclass(kind, Exception)


class Unspeakable(Exception):
    """An author's error whose text cannot be made."""

    def __str__(self) -> str:
        raise ValueError


def test_an_error_without_a_text_is_still_an_error() -> None:
    """Found by three dead turns: the stage that recorded it raised in its place."""
    record = to_record(Unspeakable())

    assert (record["type"], record["code"]) == ("Unspeakable", "SUPERVISOR_FAILED")


def test_an_errors_text_is_cut() -> None:
    """40 MB of it filled a worker's memory, and no store took them. [O 15.2 G42]"""
    assert len(to_record(ValueError("x" * 100_000))["message"]) < 5000
