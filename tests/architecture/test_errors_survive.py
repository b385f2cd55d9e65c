"""Every error keeps its class, message, code and context, however it travels; and the tree is as it is drawn."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery
from celery.backends.base import Backend

from turnchain.orchestrator_core import errors
from turnchain.orchestrator_core.errors import (
    Interruption,
    TurnchainError,
    from_record,
    scrub,
    to_record,
)

CONTEXT: dict[str, Any] = {
    "field": "input",
    "value": "nan",
    "n": 7,
    "inside": {"known": ["a", "b"]},
}


def tree(kind: type[Any], depth: int = 0) -> Iterator[tuple[int, type[Any]]]:
    """The classes of the module, depth first, as the docstring draws them."""
    yield depth, kind
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from tree(child, depth + 1)


KINDS = [kind for _, kind in tree(TurnchainError)]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def made(kind: type[TurnchainError]) -> TurnchainError:
    error = kind("session 's' is not usable: say another", CONTEXT)
    error.__cause__ = errors.StoreUnavailableError("Postgres is away", {"server": "h"})
    return error


def same(one: TurnchainError, other: BaseException) -> None:
    assert type(other) is type(one)
    assert isinstance(other, TurnchainError)
    assert (other.message, str(other)) == (one.message, str(one))
    assert (other.code, other.category) == (one.code, one.category)
    assert other.context == one.context


@every_kind
def test_an_error_survives_pickle(kind: type[TurnchainError]) -> None:
    error = made(kind)

    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        same(error, pickle.loads(pickle.dumps(error, protocol)))


@every_kind
def test_an_error_survives_its_stored_form_with_its_cause(kind: type[TurnchainError]) -> None:
    error = made(kind)

    again = from_record(json.loads(json.dumps(to_record(error))))

    same(error, again)
    assert isinstance(error.__cause__, TurnchainError)
    assert again.__cause__ is not None
    same(error.__cause__, again.__cause__)


@every_kind
def test_an_error_survives_celerys_json(kind: type[TurnchainError]) -> None:
    backend = Backend(app=Celery(set_as_current=False))
    error = made(kind)

    stored = json.loads(json.dumps(backend.prepare_exception(error, "json")))

    same(error, backend.exception_to_python(stored))


@every_kind
def test_an_error_has_a_code_of_the_wire_and_says_when_it_is_raised(
    kind: type[TurnchainError],
) -> None:
    assert re.fullmatch(r"[A-Z]+(_[A-Z]+)*", kind.code)
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", kind.category)
    assert "__doc__" in vars(kind)
    assert kind.__doc__


@every_kind
def test_an_error_without_words_says_what_its_class_says(kind: type[TurnchainError]) -> None:
    first_line = (kind.__doc__ or "").strip().splitlines()[0]

    assert str(kind()) == first_line
    same(kind(), pickle.loads(pickle.dumps(kind())))


@every_kind
def test_what_is_stored_holds_no_secret(kind: type[TurnchainError]) -> None:
    secret = "hunter2hunter2"
    error = kind(
        f"cannot reach postgresql://user:{secret}@host/db with Bearer {secret}",
        {"password": secret, "nested": [{"api_key": secret}], "url": f"amqp://u:{secret}@host"},
    )
    error.__cause__ = LookupError(f"redis://user:{secret}@host")

    assert secret not in json.dumps(to_record(error))


@pytest.mark.parametrize(
    "url",
    [
        "redis://user:hunter2@host/0",
        "redis://:hunter2@host/0",
        "redis://user:p@hunter2@host/0",
    ],
)
def test_a_password_in_a_url_is_scrubbed_and_its_host_is_not(url: str) -> None:
    scrubbed = scrub(f"cannot reach {url}, try again")

    assert "hunter2" not in scrubbed
    assert "host/0, try again" in scrubbed


def drawn() -> Iterator[tuple[int, str, str | None]]:
    """Depth, name and code of each line of the docstring's drawing; a code that is left out is the parent's."""
    for line in (errors.__doc__ or "").splitlines():
        found = re.fullmatch(
            r"    ((?:│   |    )*)(?:[├└]── )?([A-Z]\w+)(?: \(BaseException\))?(.*)", line
        )
        if found:
            branch = "──" in line
            code = re.fullmatch(r"\s+([A-Z_]{4,})\s*", found[3])
            yield len(found[1]) // 4 + branch, found[2], code[1] if code else None


def test_the_tree_is_as_it_is_drawn() -> None:
    found = list(drawn())
    there = [
        (depth, kind.__name__)
        for root in (TurnchainError, Interruption)
        for depth, kind in tree(root)
    ]

    assert sorted(found_one[:2] for found_one in found) == sorted(there)
    parents: dict[int, type[Any]] = {}
    for depth, name, code in found:
        kind = getattr(errors, name)
        if depth:
            assert kind.__bases__[0] is parents[depth - 1], name
        if code:
            assert kind.code == code, name
        elif issubclass(kind, TurnchainError) and depth:
            assert kind.code == parents[depth - 1].code, name
        parents[depth] = kind


def test_control_flow_is_no_exception_that_user_code_may_swallow() -> None:
    for _, kind in tree(Interruption):
        assert not issubclass(kind, Exception)
