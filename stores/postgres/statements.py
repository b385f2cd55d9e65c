"""The SQL of this driver: named blocks of `sql/*.sql`, as procrastinate keeps its own.

    -- claim --
    -- Take the right to run the stage. [one line that says what it is for]
    UPDATE …

Values are `%(name)s` parameters with a cast, so that every host's driver sends them alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Final, LiteralString, cast

_FOLDER: Final = files("turnchain.stores.postgres").joinpath("sql")
_SCHEMA: Final = ("schema.sql", "functions.sql")
_FUNCTION: Final = re.compile(r"^CREATE OR REPLACE FUNCTION (\w+)", re.MULTILINE)
_CALL: Final = "SELECT "
_HEADER: Final = re.compile(r"^-- (\w+) --\n-- .+\n", re.MULTILINE)


def parse(text: LiteralString) -> Iterator[tuple[str, LiteralString]]:
    """The named statements of one file, in its order."""
    parts = _HEADER.split(text)
    for name, statement in zip(parts[1::2], parts[2::2], strict=True):
        # Cut from a file of the package: as literal as the file itself.
        yield name, cast("LiteralString", statement.strip())


def _read(name: str) -> LiteralString:
    # A file of the package is as literal as its code; psycopg's types ask for that.
    text = _FOLDER.joinpath(name).read_text(encoding="utf-8")
    return cast("LiteralString", text)


def _load() -> dict[str, LiteralString]:
    names = sorted(entry.name for entry in _FOLDER.iterdir())
    found = [item for name in names if name not in _SCHEMA for item in parse(_read(name))]
    statements = dict(found)
    assert len(statements) == len(found), "two statements have one name"
    return statements


STATEMENTS: Final = _load()


@cache
def joined(names: tuple[str, ...]) -> LiteralString:
    """One statement out of several that are each `SELECT function(…)`, called in this order.

    The parameters of the first are called `0_name`, of the second `1_name`, and so on.
    """
    calls = [STATEMENTS[name] for name in names]
    assert all(call.startswith(_CALL) for call in calls), f"not all of {names} are calls"
    text = _CALL + ", ".join(
        call.removeprefix(_CALL).replace("%(", f"%({number}_") for number, call in enumerate(calls)
    )
    return cast("LiteralString", text)  # as literal as its parts


def functions() -> list[str]:
    """The names of the functions that this release calls."""
    return _FUNCTION.findall(_read(_SCHEMA[1]))


def schema() -> str:
    """The DDL to apply, for example by `psql`. Applying it again changes nothing."""
    return "\n".join(map(_read, _SCHEMA))
