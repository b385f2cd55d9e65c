"""From the arguments of a call to a request: everything wrong is found before any write."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from tests.orchestrator_core.builders import HISTORY5
from turnchain.orchestrator_core.contracts import Message, Owner, Provider, TurnId, TurnRequest
from turnchain.orchestrator_core.errors import InvalidInputError
from turnchain.orchestrator_core.requests import MISSING, build_request, request_hash

DEADLINE = datetime(2026, 1, 1, tzinfo=UTC)


def build(**changes: Any) -> TurnRequest:
    given: dict[str, Any] = {
        "orchestrator_name": "support",
        "input": "hello",
        "turn_id": TurnId("t1"),
        "session_id": "s1",
        "history": [],
    }
    return build_request(**{**given, **changes})


def test_a_request_holds_what_was_given() -> None:
    request = build(
        input={"say": "hello"},
        history=[HISTORY5[0], Message(role="assistant", content="yes")],
        state={"a": (1, 2)},
        context=Provider(name="db", arguments={"shard": 1}),
        tenant="acme",
        user_id="u1",
        force=True,
        priority=-3,
        expected_turn_index=4,
        idempotency_key="k",
        deadline=DEADLINE,
        runner="engine",
    )

    assert request.input == {"say": "hello"}
    assert isinstance(request.history, tuple)
    assert [message.content for message in request.history] == ["message 0", "yes"]
    assert request.state == {"a": [1, 2]}
    assert request.context == Provider(name="db", arguments={"shard": 1})
    assert request.owner == Owner(tenant="acme", user_id="u1")
    assert (request.force, request.priority, request.expected_turn_index) == (True, -3, 4)
    assert (request.idempotency_key, request.deadline, request.runner) == ("k", DEADLINE, "engine")
    assert (request.session.orchestrator_name, request.session.session_id) == ("support", "s1")


def test_what_was_left_out_is_empty() -> None:
    request = build()

    assert (request.history, request.state, request.context) == ((), {}, {})
    assert (request.owner, request.expected_turn_index, request.deadline) == (Owner(), None, None)


def test_a_request_is_a_copy_of_its_arguments() -> None:
    """[O 16.3 65] What the caller changes after the call is invisible."""
    state, context, input = {"a": [1]}, {"b": [1]}, {"c": [1]}

    request = build(state=state, context=context, input=input)
    for given in (state, context, input):
        next(iter(given.values())).append(2)

    assert (request.state, request.context, request.input) == ({"a": [1]}, {"b": [1]}, {"c": [1]})


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("input", MISSING),
        ("input", None),
        ("input", {"x": float("nan")}),
        ("input", {"x": {1}}),
        ("input", "nul \x00"),
        ("history", None),
        ("history", "hi"),
        ("history", {"role": "user"}),
        ("history", 7),
        ("history", [{"content": "no role"}]),
        ("history", [{"role": "user", "content": {1}}]),
        ("history", Provider(name="")),
        ("history", Provider(name="h", arguments={"x": float("nan")})),
        ("history", Provider(name="h", arguments={"x": {1}})),
        ("session_id", ""),
        ("session_id", "  "),
        ("session_id", None),
        ("session_id", 7),
        ("session_id", "s" * 201),
        ("session_id", "nul \x00"),
        ("orchestrator_name", ""),
        ("orchestrator_name", None),
        ("state", [1]),
        ("state", "x"),
        ("state", {"x": float("inf")}),
        ("state", {1: "x"}),
        ("context", [1]),
        ("context", []),
        ("context", 0),
        ("context", "x"),
        ("context", {"db": object()}),
        ("context", Provider(name="")),
        ("context", Provider(name="c", arguments={"x": {1}})),
        ("context", {"kind": "turnchain.provider", "name": "db"}),
        ("tenant", ""),
        ("tenant", 7),
        ("user_id", " "),
        ("idempotency_key", ""),
        ("priority", "high"),
        ("priority", 40_000),
        ("priority", True),
        ("expected_turn_index", -1),
        ("expected_turn_index", 1.0),
        ("expected_turn_index", False),
        ("deadline", datetime(2026, 1, 1)),  # noqa: DTZ001 - naive is the mistake
        ("deadline", 60),
        ("deadline", timedelta(minutes=1)),
    ],
)
def test_an_argument_that_is_not_usable_is_named(field: str, value: Any) -> None:
    """[O 1.2.15, O 16.5 T28]."""
    with pytest.raises(InvalidInputError, match=field) as refused:
        build(**{field: value})

    assert refused.value.context["field"].startswith(field)


@pytest.mark.parametrize("field", ["input", "state", "context", "history"])
def test_content_over_the_limit_is_refused(field: str) -> None:
    text = "x" * 100
    given = {"input": text, "history": [{"role": "user", "content": text}]}

    with pytest.raises(InvalidInputError, match=f"^{field} is .* bytes of JSON"):
        build(**{field: given.get(field, {"x": text}), "limit": 60})


@pytest.mark.parametrize("input", ["", 0, False, [], {}])
def test_an_empty_input_is_an_input(input: Any) -> None:
    assert build(input=input).input == input


def test_a_literal_context_never_turns_into_a_provider() -> None:
    """A context that a web app passes on could otherwise have the worker call any provider, with any arguments."""
    with pytest.raises(InvalidInputError, match=r"context\.kind"):
        build(context={"kind": "turnchain.provider", "name": "admin", "arguments": {"all": True}})

    assert build(context={"kind": "something else"}).context == {"kind": "something else"}


# -- the hash of a request


def test_the_same_call_has_the_same_hash() -> None:
    """Under another turn id, too: that is what an idempotency key compares."""
    assert request_hash(build()) == request_hash(build(turn_id=TurnId("t2")))


@pytest.mark.parametrize(
    "changes",
    [
        {"orchestrator_name": "sales"},
        {"session_id": "s2"},
        {"input": "hello!"},
        {"history": HISTORY5},
        {"history": Provider(name="h")},
        {"state": {"a": 1}},
        {"context": {"a": 1}},
        {"context": Provider(name="c")},
        {"tenant": "acme"},
        {"user_id": "u1"},
        {"force": True},
        {"priority": 1},
        {"expected_turn_index": 0},
        {"idempotency_key": "k"},
        {"deadline": DEADLINE},
        {"runner": "engine"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_anything_that_was_asked_changes_it(changes: dict[str, Any]) -> None:
    assert request_hash(build(**changes)) != request_hash(build())


def test_an_instant_has_one_hash_in_every_time_zone() -> None:
    """A caller that asks again may run on a host with another zone."""
    elsewhere = DEADLINE.astimezone(timezone(timedelta(hours=2)))

    assert request_hash(build(deadline=elsewhere)) == request_hash(build(deadline=DEADLINE))
