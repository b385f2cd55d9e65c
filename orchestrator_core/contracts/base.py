"""What every stored or returned value has in common."""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any, cast

from pydantic import BaseModel, ConfigDict

from turnchain.orchestrator_core.errors import InvalidInputError

JSON = Any
"""A JSON value: None, bool, int, finite float, str, or lists and string-keyed objects of them."""
JSONObject = dict[str, Any]

INPUT_LIMIT = 1_000_000
"""Default cap, in bytes of compact UTF-8 JSON, on each of input, state, history and context."""

_DEEPEST = 100
"""Levels of nesting; ends the recursion before Python's own limit does."""
_LONGEST_INT = 1024
"""Bits of an int; Python refuses to print much longer ones."""
_SHOWN = 60
"""Characters of a refused value that an error shows."""


class Record(BaseModel):
    """A frozen value that crosses a process. Unknown keys are ignored: an older reader survives a newer writer."""

    model_config = ConfigDict(frozen=True, extra="ignore", arbitrary_types_allowed=True)


def to_json(value: JSON) -> str:
    """Compact JSON with code-point order of keys left as given. The value must have passed `checked_json`."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def checked_json(field: str, value: JSON, limit: int = INPUT_LIMIT) -> JSON:
    """Return a deep JSON copy of `value`, or refuse it by naming the place that is not JSON.

    Raises:
        InvalidInputError: NaN or infinity, a set, bytes or other object, a cycle, a key that is not text, a lone
            surrogate or NUL character (Postgres cannot store either), or more than `limit` bytes.
    """
    copy = _copied(field, value, ())
    size = len(to_json(copy).encode())
    if size > limit:
        raise InvalidInputError(
            f"{field} is {size:,} bytes of JSON, and at most {limit:,} are taken: store large content elsewhere and "
            "pass a reference to it",
            {"field": field, "size": size, "limit": limit},
        )
    return copy


def _copied(path: str, value: JSON, above: tuple[int, ...]) -> JSON:
    if value is None or isinstance(value, bool | int | float | str):
        return _checked_scalar(path, value)
    if id(value) in above:
        raise _refused(path, type(value).__name__, "contains itself: break the cycle")
    if len(above) >= _DEEPEST:
        reason = f"is nested more than {_DEEPEST} levels deep: flatten it"
        raise _refused(path, type(value).__name__, reason)
    above = (*above, id(value))
    if isinstance(value, Mapping):
        items = cast("Mapping[Any, Any]", value).items()
        return {
            _checked_key(path, key): _copied(f"{path}.{key}", item, above) for key, item in items
        }
    if isinstance(value, list | tuple):
        members = enumerate(cast("list[Any]", value))
        return [_copied(f"{path}[{index}]", item, above) for index, item in members]
    kind = type(value).__name__
    raise _refused(path, value, f"is a {kind}, which JSON does not have: convert it first")


def _checked_key(path: str, key: object) -> str:
    if not isinstance(key, str):
        raise _refused(path, key, "is a key that is not text: convert keys with str()")
    return _checked_text(f"{path} key", key)


def _checked_scalar(path: str, value: JSON) -> JSON:
    if isinstance(value, str):
        return _checked_text(path, value)
    if isinstance(value, float) and not isfinite(value):
        raise _refused(path, value, "is not a JSON number: pass None or a string instead")
    if isinstance(value, int) and value.bit_length() > _LONGEST_INT:
        reason = "has too many digits for a JSON number: pass it as a string"
        raise _refused(path, f"an int of {value.bit_length()} bits", reason)
    return value


def _checked_text(path: str, value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _refused(path, value, "holds half a surrogate pair: remove it") from None
    if "\x00" in value:
        raise _refused(path, value, "holds a NUL character: remove it")
    return value


def _refused(path: str, value: object, reason: str) -> InvalidInputError:
    text = repr(value)
    shown = text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
    return InvalidInputError(f"{path} = {shown} {reason}", {"field": path, "value": shown})
