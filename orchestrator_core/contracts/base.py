"""What every stored or returned value has in common."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

from pydantic import BaseModel, ConfigDict

from turnchain.orchestrator_core.errors import InvalidInputError

JSON = Any
"""A JSON value: None, bool, int, finite float, str, or lists and string-keyed objects of them."""
JSONObject = dict[str, Any]

INPUT_LIMIT = 1_000_000
"""Default cap, in bytes of compact UTF-8 JSON, on each of input, state, history and context."""


class Record(BaseModel):
    """A frozen value that crosses a process. Unknown keys are ignored, so that an older reader survives a newer writer."""

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
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        if "\x00" in value or any("\ud800" <= char <= "\udfff" for char in value):
            raise _refused(path, value, "holds a NUL character or half a surrogate pair: remove it")
        return value
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise _refused(path, value, "is not a JSON number: pass None or a string instead")
        return value
    if id(value) in above:
        raise _refused(path, type(value).__name__, "contains itself: break the cycle")
    if len(above) > 100:
        raise _refused(
            path, type(value).__name__, "is nested more than 100 levels deep: flatten it"
        )
    if isinstance(value, Mapping):
        result: JSONObject = {}
        for key, item in cast("Mapping[Any, Any]", value).items():
            if not isinstance(key, str):
                raise _refused(path, key, "is a key that is not text: convert keys with str()")
            result[_copied(f"{path} key", key, ())] = _copied(
                f"{path}.{key}", item, (*above, id(value))
            )
        return result
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        return [
            _copied(f"{path}[{index}]", item, (*above, id(value)))
            for index, item in enumerate(items)
        ]
    raise _refused(
        path, value, f"is a {type(value).__name__}, which JSON does not have: convert it first"
    )


def _refused(path: str, value: object, reason: str) -> InvalidInputError:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return InvalidInputError(f"{path} = {shown} {reason}", {"field": path, "value": shown})
