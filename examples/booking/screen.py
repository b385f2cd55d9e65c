"""What the demo shows: a progress bar on a terminal, plain lines where there is none."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import TextIO, cast

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from turnchain.workers.closed_pipe import abandon

LINE_SECONDS = 5.0
"""Between two lines of progress where there is no bar."""


class _Out:
    """A stream that may lose its reader. The demo then ends as by Ctrl-C, and goes without its last words."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.encoding = stream.encoding
        self.isatty = stream.isatty
        self.fileno = stream.fileno

    def write(self, text: str) -> int:
        """Write it at once."""
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:  # a pipe that was closed, a terminal that has gone
            abandon(self._stream)
            os.kill(os.getpid(), signal.SIGHUP)
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""


class Screen:
    """Sentences, progress and a table, in the order of the calls."""

    def __init__(self, out: TextIO) -> None:
        # The cast: rich needs no more of a file than this.
        self._console = Console(file=cast("TextIO", _Out(out)))
        self._has_bar = self._console.is_terminal and not self._console.is_dumb_terminal
        self._bar = Progress(
            TextColumn("  {task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("turns"),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
            disable=not self._has_bar,
        )
        self._task: TaskID | None = None
        self._turns = 0
        self._began: float | None = None
        self._shown_at = 0.0

    def say(self, text: str = "", style: str | None = None) -> None:
        """Print a line as it is; the style is for terminals."""
        self._console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)

    def tell(self, first: str, *more: str, style: str | None = None) -> None:
        """Print what has just happened, with the seconds since the play began."""
        since = "" if self._began is None else f"{monotonic() - self._began:.1f} s"
        for stamp, line in zip((since, *("" for _ in more)), (first, *more), strict=True):
            self.say(f"{stamp:>8}  {line}", style)

    @contextmanager
    def playing(self, turns: int) -> Generator[None]:
        """Show the progress of so many turns for the length of the block."""
        self._turns = turns
        self._began = self._shown_at = monotonic()
        with self._bar:
            self._task = self._bar.add_task("playing", total=turns)
            yield

    def answered(self, turns: int) -> None:
        """So many have their answer."""
        if self._has_bar and self._task is not None:
            self._bar.update(self._task, completed=turns)
        elif monotonic() - self._shown_at >= LINE_SECONDS or turns == self._turns:
            self._shown_at = monotonic()
            self.tell(f"{turns} of {self._turns} turns answered")

    def shorten(self, turns: int) -> None:
        """So many will not be played."""
        self._turns -= turns
        if self._task is not None:
            self._bar.update(self._task, total=self._turns)

    def table(self, rows: Sequence[tuple[str, object]]) -> None:
        """Names at the left, values at the right."""
        for name, value in rows:
            self.say(f"  {name:<28}{value!s:>16}")
