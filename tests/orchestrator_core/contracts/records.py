"""Hypothesis strategies for any record, read off its fields."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NewType, Union, get_args, get_origin

from hypothesis import strategies as st

from turnchain.orchestrator_core import contracts
from turnchain.orchestrator_core.contracts import Record

NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)
"""What Postgres can store."""
JSON_VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)

RECORDS = sorted(
    (
        value
        for value in vars(contracts).values()
        if isinstance(value, type) and issubclass(value, Record) and value is not Record
    ),
    key=lambda kind: kind.__name__,
)


def records(kind: type[Record], depth: int = 2) -> st.SearchStrategy[Record]:
    """Any value of this record; trees of records are at most so deep."""
    fields = {name: _of(field.annotation, depth) for name, field in kind.model_fields.items()}
    return st.builds(kind, **fields)


def _of(annotation: Any, depth: int) -> st.SearchStrategy[Any]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return st.one_of(*(_of(each, depth) for each in arguments))
    if origin is Annotated:
        return _of(arguments[0], depth)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin is tuple:
        items = _of(arguments[0], depth - 1) if depth else st.nothing()
        return st.lists(items, max_size=2 if depth else 0).map(tuple)
    if origin is list:
        return st.lists(_of(arguments[0], depth), max_size=2)
    if origin is dict:
        values = _of(arguments[1], depth)
        return st.dictionaries(TEXTS, values, max_size=2)
    if isinstance(annotation, NewType):
        return _of(annotation.__supertype__, depth)
    if isinstance(annotation, type) and issubclass(annotation, Record):
        return records(annotation, depth)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return st.sampled_from(annotation)
    return _PLAIN[annotation]


_PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    Any: JSON_VALUES,
    NoneType: st.none(),
    bool: st.booleans(),
    int: st.integers(min_value=-(2**63), max_value=2**63 - 1),
    float: st.floats(allow_nan=False, allow_infinity=False),
    str: TEXTS,
    datetime: st.datetimes(timezones=st.just(UTC)),
}
