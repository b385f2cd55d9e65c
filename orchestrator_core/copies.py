"""Copies for the author's callables, which may change what they are given. [O 15.4 G38]"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, cast, overload

from turnchain.orchestrator_core.contracts import JSON
from turnchain.orchestrator_core.contracts.base import Record

Kept = TypeVar("Kept", bound=Record)


class Copies(Sequence[Kept]):
    """A sequence of records, each copied when it is first asked for: most callables look at few of them, or at none.

    A turn's callables would otherwise copy every earlier iteration again, in each iteration.
    """

    def __init__(self, records: Sequence[Kept]) -> None:
        self._records = records
        self._copies: dict[int, Kept] = {}

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> Kept: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Kept, ...]: ...
    def __getitem__(self, index: int | slice) -> Kept | tuple[Kept, ...]:
        places = range(len(self._records))[index]
        return self._at(places) if isinstance(places, int) else tuple(map(self._at, places))

    def _at(self, place: int) -> Kept:
        if place not in self._copies:
            self._copies[place] = self._records[place].model_copy(deep=True)
        return self._copies[place]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return tuple(self) == tuple(cast("Sequence[Any]", other))

    def __repr__(self) -> str:
        return repr(tuple(self))


def json_copy(value: JSON) -> JSON:
    """A deep copy of a JSON value, several times faster than `copy.deepcopy`, which knows nothing of its kinds."""
    if isinstance(value, dict):
        items = cast("dict[str, Any]", value).items()
        return {key: json_copy(item) for key, item in items}
    if isinstance(value, list):
        return [json_copy(item) for item in cast("list[Any]", value)]
    return value
