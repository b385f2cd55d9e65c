"""The names that people import: all there, all documented, and enough to name what they are given."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Iterator
from enum import Enum
from types import ModuleType
from typing import Any

import pytest

import turnchain
from turnchain.orchestrator_core import callbacks, errors
from turnchain.orchestrator_core.errors import Interruption, TurnchainError

NAMES = turnchain.__all__
MADE_FOR_THEM = ("Engine", "SessionClient", "Turn")
"""Classes whose instances `connect`, `in_process` and `enqueue` make: nobody needs what their constructors take."""


def test_the_list_is_in_order_and_without_repetition() -> None:
    constants = [name for name in NAMES if name.isupper()]
    classes = [name for name in NAMES if name[0].isupper() and not name.isupper()]
    rest = [name for name in NAMES if name not in {*constants, *classes}]

    assert sorted(set(NAMES)) == sorted(NAMES)
    assert list(NAMES) == [*sorted(constants), *sorted(classes), *sorted(rest)]


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_there_and_says_what_it_is(name: str) -> None:
    value = getattr(turnchain, name)

    if inspect.isclass(value) or inspect.isfunction(value):
        assert value.__doc__, name
        assert re.match("[A-Z`]", value.__doc__)
        assert not value.__doc__.startswith(f"{name}(")


def test_what_the_package_shows_is_in_the_list() -> None:
    shown = {
        name
        for name, value in vars(turnchain).items()
        if not name.startswith("_")
        and not isinstance(value, ModuleType)
        and name not in ("annotations", "Any", "TYPE_CHECKING", "import_module")
    }

    assert shown - set(NAMES) == set()


def test_a_name_that_is_not_there_is_told_by_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        _ = turnchain.conect  # pyright: ignore[reportAttributeAccessIssue]
    assert not hasattr(turnchain, "conect")


def classes(kind: type[BaseException]) -> Iterator[type[BaseException]]:
    for child in kind.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child
            yield from classes(child)


def test_every_error_that_can_be_caught_can_be_imported() -> None:
    """What broke: the docstring of `enqueue` named errors that only a deep import could reach."""
    assert {kind.__name__ for kind in (TurnchainError, *classes(TurnchainError))} <= set(NAMES)
    assert not {kind.__name__ for kind in (Interruption, *classes(Interruption))} & set(NAMES)


OTHERS = {**vars(callbacks), "Celery": object}
"""What annotations name without importing it."""


def ours_in(hint: Any) -> Iterator[type]:
    """Our classes in an annotation, however deep."""
    if inspect.isclass(hint) and hint.__module__.startswith("turnchain."):
        yield hint
    for inner in (*typing.get_args(hint), *typing.get_args(getattr(hint, "__value__", None))):
        yield from ours_in(inner)


def hints_of(value: Any) -> Iterator[Any]:
    """Annotations of what a user calls, reads and is given."""
    if inspect.isfunction(value):
        yield from typing.get_type_hints(value, localns=OTHERS).values()
        return
    for base in value.__mro__:
        if base.__module__.startswith("turnchain."):
            names = vars(base).get("__annotations__", {})
            found = typing.get_type_hints(base, localns=OTHERS)
            yield from (found[name] for name in names if not name.startswith("_"))
    for name, member in inspect.getmembers(value):
        method = member.fget if isinstance(member, property) else member
        if name.startswith("_") or not inspect.isfunction(method):
            continue
        if method.__module__.startswith("turnchain."):
            yield from typing.get_type_hints(method, localns=OTHERS).values()


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in NAMES
        if inspect.isroutine(getattr(turnchain, name)) or inspect.isclass(getattr(turnchain, name))
    ],
)
def test_whatever_a_user_is_given_can_be_named(name: str) -> None:
    found = {ours for hint in hints_of(getattr(turnchain, name)) for ours in ours_in(hint)}
    inside = {
        callbacks.CallContext,
        callbacks.Journal,
    }  # bases and parts that nobody makes or stores

    assert {each.__name__ for each in found - inside} - set(NAMES) == set()


def test_statuses_and_stages_are_spelled_as_on_the_wire() -> None:
    def spelled(kind: type[Enum]) -> list[str]:
        return [each.value for each in kind]

    assert spelled(turnchain.TurnStatus)[:6] == [
        "queued",
        "running",
        "paused",
        "awaiting-input",
        "failed",
        "cancelled",
    ]
    assert spelled(turnchain.Stage) == [
        "load",
        "drift",
        "lock",
        "window",
        "dispatch",
        "persist",
        "compact",
        "done",
    ]


@pytest.mark.parametrize("name", MADE_FOR_THEM)
def test_every_public_method_says_what_it_does(name: str) -> None:
    for method_name, method in inspect.getmembers(getattr(turnchain, name), inspect.isfunction):
        if not method_name.startswith("_"):
            assert method.__doc__, f"{name}.{method_name}"


def test_every_call_has_its_async_twin_with_the_same_arguments() -> None:
    for kind, names in (
        (turnchain.SessionClient, ("enqueue", "get")),
        (turnchain.Turn, ("get", "result", "events", "cancel")),
    ):
        for name in names:
            plain, twin = (
                inspect.signature(getattr(kind, each)).parameters for each in (name, f"a{name}")
            )
            assert list(plain) == list(twin), name


def test_the_version_is_the_distributions() -> None:
    from importlib.metadata import version

    assert turnchain.__version__ == version("turnchain")
