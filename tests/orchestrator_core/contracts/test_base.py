"""What every stored or returned value has in common."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.orchestrator_core.contracts.records import JSON_VALUES, RECORDS, records
from turnchain.orchestrator_core.contracts import (
    IterationSnapshot,
    Message,
    Provider,
    Record,
    SessionKey,
    SupervisorRun,
    TurnRequest,
    checked_json,
    to_json,
)
from turnchain.orchestrator_core.errors import InvalidInputError

RARE = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


class Colour(StrEnum):
    RED = "red"


def nested(levels: int) -> Any:
    value: Any = "leaf"
    for _ in range(levels):
        value = [value]
    return value


def cycle() -> Any:
    value: dict[str, Any] = {}
    value["again"] = [value]
    return value


# -- checked_json


@given(JSON_VALUES)
def test_json_comes_back_equal(value: Any) -> None:
    assert checked_json("input", value) == value


def test_the_result_is_a_deep_copy() -> None:
    """[O 15.2 G24]."""
    given: dict[str, Any] = {"list": [{"inner": 1}]}

    copy = checked_json("input", given)
    given["list"][0]["inner"] = 2

    assert copy == {"list": [{"inner": 1}]}


def test_tuples_and_mappings_become_lists_and_dicts() -> None:
    given = MappingProxyType({"point": (1, 2)})

    copy = checked_json("input", given)

    assert copy == {"point": [1, 2]}
    assert (type(copy), type(copy["point"])) == (dict, list)


@pytest.mark.parametrize(
    ("value", "place"),
    [
        (float("nan"), "input"),
        ({"a": [1, float("inf")]}, r"input\.a\[1\]"),
        ({"a": {1, 2}}, r"input\.a"),
        ({"a": b"bytes"}, r"input\.a"),
        ([datetime(2026, 1, 1, tzinfo=UTC)], r"input\[0\]"),
        ({"a": {1: "x"}}, r"input\.a"),
        ({"a": {None: "x"}}, r"input\.a"),
        ("half \ud800 pair", "input"),
        ({"a": "nul \x00"}, r"input\.a"),
        ({"nul \x00": 1}, "input key"),
        (cycle(), r"input\.again\[0\]"),
        (nested(102), r"input\[0\]"),
        ({"a": object()}, r"input\.a"),
    ],
)
def test_what_is_not_json_is_refused_by_its_place(value: Any, place: str) -> None:
    with pytest.raises(InvalidInputError, match=f"^{place}.* = ") as refused:
        checked_json("input", value)

    assert refused.value.context["field"].startswith("input")


def test_a_cycle_is_called_one() -> None:
    """And not a value that is nested too deep, which it also is."""
    with pytest.raises(InvalidInputError, match="contains itself"):
        checked_json("input", cycle())


def test_a_value_that_is_used_twice_is_no_cycle() -> None:
    shared = {"x": 1}

    assert checked_json("input", [shared, shared]) == [{"x": 1}, {"x": 1}]


def test_a_hundred_levels_are_not_too_deep() -> None:
    assert checked_json("input", nested(100)) == nested(100)


def test_text_of_an_enum_is_text() -> None:
    assert to_json(checked_json("input", {"colour": Colour.RED})) == '{"colour":"red"}'


def test_size_is_counted_in_bytes_of_utf8() -> None:
    """Five characters of two bytes each, and two quotes."""
    assert checked_json("input", "äöüßé", limit=12) == "äöüßé"

    with pytest.raises(InvalidInputError, match="12 bytes of JSON, and at most 11") as refused:
        checked_json("input", "äöüßé", limit=11)

    assert refused.value.context == {"field": "input", "size": 12, "limit": 11}


def test_a_number_too_long_to_write_is_refused_like_anything_else() -> None:
    """Python refuses to print such an int, which came out as a bare ValueError."""
    with pytest.raises(InvalidInputError, match=r"input\.n"):
        checked_json("input", {"n": 10**5000})


def test_a_refusal_shows_at_most_the_beginning_of_a_value() -> None:
    with pytest.raises(InvalidInputError) as refused:
        checked_json("input", "x" * 5000 + "\x00")

    assert len(str(refused.value)) < 200


# -- records


@pytest.mark.parametrize("kind", RECORDS, ids=lambda kind: kind.__name__)
@RARE
@given(data=st.data())
def test_every_record_survives_json(kind: type[Record], data: st.DataObject) -> None:
    """[DESIGN 4] A stored row is read back as what was written."""
    record = data.draw(records(kind))

    stored = record.model_dump_json()

    assert _complete(record, kind.model_validate_json(stored)) == record


@RARE
@given(run=records(SupervisorRun))
def test_a_run_survives_as_its_head_and_its_iterations(run: SupervisorRun) -> None:
    """[O 15.2 G25] One head row and one row an iteration: nothing else is stored, and nothing else is needed."""
    head = run.model_dump_json()
    iterations = [one.model_dump_json() for one in run.iterations]

    loaded = SupervisorRun.model_validate_json(head).evolve(
        iterations=tuple(IterationSnapshot.model_validate_json(text) for text in iterations)
    )

    assert loaded == run
    assert "iterations" not in json.loads(head)


def _complete(written: Record, read: Record) -> Record:
    """A run's head is stored without its iterations, which have rows of their own."""
    if isinstance(written, SupervisorRun) and isinstance(read, SupervisorRun):
        return read.evolve(iterations=written.iterations)
    return read


def test_a_record_of_a_newer_writer_is_read_without_what_is_new() -> None:
    stored = '{"orchestrator_name": "o", "session_id": "s", "colour": "red"}'

    assert SessionKey.model_validate_json(stored) == SessionKey(
        orchestrator_name="o", session_id="s"
    )


def test_a_record_cannot_be_changed() -> None:
    key = SessionKey(orchestrator_name="o", session_id="s")

    with pytest.raises(ValidationError, match="frozen"):
        key.session_id = "t"  # pyright: ignore[reportAttributeAccessIssue]


def test_a_message_keeps_keys_that_nobody_knows() -> None:
    given = {"role": "assistant", "content": None, "tool_calls": [{"id": "c1"}]}

    message = Message.model_validate(given)

    assert json.loads(message.model_dump_json()) == given


def test_a_stored_provider_is_told_from_a_context_with_the_same_keys() -> None:
    session = SessionKey(orchestrator_name="o", session_id="s")
    literal = {"name": "db", "arguments": {"shard": 1}}
    asked = {"turn_id": "t", "session": session, "input": "x"}

    for context in (literal, Provider(name="db", arguments={"shard": 1})):
        request = TurnRequest.model_validate({**asked, "context": context})

        assert TurnRequest.model_validate_json(request.model_dump_json()).context == context
