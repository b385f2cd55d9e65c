"""What the commands print: a table for people, aligned text for pipes, JSON lines for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from importlib.util import find_spec
from typing import Final, overload

from turnchain.orchestrator_core.contracts import JSONObject
from turnchain.workers.closed_pipe import abandon
from turnchain.workers.printable import printable

_GAP: Final = "  "
_NARROW: Final = 12
"""How many signs wide a column that folds still is."""


def write(text: str) -> None:
    """Write to standard output; end quietly where nobody reads it any more, as in `… | head`."""
    encoding = sys.stdout.encoding or "utf-8"
    try:
        sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))
        sys.stdout.flush()
    except BrokenPipeError:
        abandon(sys.stdout)
        sys.exit(0)


def write_json(values: Iterable[JSONObject]) -> None:
    """One object a line, in ASCII: what an id holds can neither break a line nor move a cursor."""
    for value in values:
        write(json.dumps(value, allow_nan=False) + "\n")


def write_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], folding: Sequence[str]
) -> None:
    """Columns for people: those that are `folding` fit the width of a terminal, and nothing is ever cut."""
    shown = [[printable(cell) for cell in row] for row in rows]
    if sys.stdout.isatty() and find_spec("rich"):
        _write_rich(columns, shown, folding)
    else:
        write("".join(f"{line}\n" for line in aligned([columns, *shown])))


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines whose columns begin one below the other."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        _GAP.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


@overload
def iso(instant: datetime) -> str: ...
@overload
def iso(instant: None) -> None: ...
def iso(instant: datetime | None) -> str | None:
    """An instant as JSON has it, to the microsecond."""
    return None if instant is None else instant.isoformat().replace("+00:00", "Z")


def _write_rich(
    columns: Sequence[str], rows: Sequence[Sequence[str]], folding: Sequence[str]
) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    table = Table(box=None, pad_edge=False, padding=(0, len(_GAP), 0, 0), header_style="bold")
    narrowest = 0
    for column, cells in zip(columns, zip(*rows, strict=True), strict=True):
        longest = max(map(len, (column, *cells)))
        width = min(longest, _NARROW) if column in folding else longest
        narrowest += width + len(_GAP)
        table.add_column(column, overflow="fold", no_wrap=column not in folding)
    for row in rows:
        table.add_row(*map(Text, row))
    # What is too wide for the terminal is wrapped by the terminal.
    console.width = max(console.width, narrowest)
    with console.capture() as capture:
        console.print(table)
    write(capture.get())
