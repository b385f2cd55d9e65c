"""What several processes print, as one stream: a line each, with the name of who said it."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import threading
from collections.abc import Callable
from datetime import datetime
from itertools import cycle
from pathlib import Path
from typing import Any, Final, Protocol, TextIO, cast

from turnchain.orchestrator_core import wire
from turnchain.workers.closed_pipe import abandon
from turnchain.workers.logs import FIELDS
from turnchain.workers.printable import printable

_COLOURS: Final = ("36", "33", "32", "35", "34", "96", "93", "92")
_WIDTH: Final = len("turnchain")
# Three lines every five seconds, for ever, would soon have carried away everything else.
_ROUTINE: Final = re.compile(
    rf"^[\d:]{{8}} (Scheduler: Sending due task .*\({re.escape(wire.DRAIN)}\)"
    rf"|Task {re.escape(wire.DRAIN)}\[[\w-]+\] (received|succeeded))"
)
_GONE: Final = (errno.EPIPE, errno.EIO)
"""A pipe that was closed, a terminal that has gone."""
_LOUD: Final = ("WARNING", "ERROR", "CRITICAL")


class Sink(Protocol):
    """Where lines go. Called by a thread for each process."""

    def write(self, name: str, line: str) -> None:
        """One line, without its end."""
        ...


class Console:
    """Prefixed lines on one stream, in colours where it is a terminal."""

    def __init__(self, stream: TextIO, *, on_closed: Callable[[], None]) -> None:
        """`on_closed` is called once, when nobody reads the stream any more."""
        self._stream = stream
        if isinstance(stream, io.TextIOWrapper):
            # What this terminal cannot show must not end everything.
            stream.reconfigure(errors="backslashreplace")
        self._colours = (
            cycle(_COLOURS) if stream.isatty() and "NO_COLOR" not in os.environ else None
        )
        self._on_closed = on_closed
        self._prefixes: dict[str, str] = {}
        self._is_closed = False
        self._lock = threading.Lock()

    def write(self, name: str, line: str) -> None:
        """Print it at once, unless it says nothing."""
        shown = printable(readable(line).expandtabs())
        if not shown.strip() or _ROUTINE.search(shown):
            return
        with self._lock:
            self._print(f"{self._prefix(name)} {shown}\n")

    def show(self, text: str) -> None:
        """Print it as it is."""
        with self._lock:
            self._print(text)

    def _print(self, text: str) -> None:
        if self._is_closed:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError as error:
            # Nobody reads it any more. Any other, such as a full disk: what was to be done is done all the same.
            if error.errno in _GONE:
                self._is_closed = True
                abandon(self._stream)
                self._on_closed()

    def _prefix(self, name: str) -> str:
        if name not in self._prefixes:
            plain = f"{name:<{_WIDTH}} |"
            colours = self._colours
            self._prefixes[name] = f"\033[{next(colours)}m{plain}\033[0m" if colours else plain
        return self._prefixes[name]


class LogFiles:
    """A file for each name, in one directory, written anew."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(exist_ok=True)
        self._directory = directory
        self._begun: set[str] = set()

    def write(self, name: str, line: str) -> None:
        """Append it."""
        with self.path(name).open("a" if name in self._begun else "w") as file:
            file.write(f"{line}\n")
        self._begun.add(name)

    def path(self, name: str) -> Path:
        """Where its lines go."""
        return self._directory / f"{name}.log"


def readable(line: str) -> str:
    """A line of our JSON logs as a person reads it; every other as it is."""
    try:
        parsed: Any = json.loads(line)
        fields = cast("dict[str, Any]", parsed)
        at = datetime.fromisoformat(fields["ts"]).astimezone()
        level = f"{fields['level']} " if fields["level"] in _LOUD else ""
        ids = " ".join(f"{name}={fields[name]}" for name in FIELDS if name in fields)
        where = (
            f" ({fields['exception']} at {fields['raised_at'][-1]})"
            if "exception" in fields
            else ""
        )
        return f"{at:%H:%M:%S} {level}{fields['message']}{where} {ids}".rstrip()
    except (ValueError, KeyError, TypeError, IndexError):
        return line
