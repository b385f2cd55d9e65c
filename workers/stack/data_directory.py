"""The one directory that a stack keeps everything in: one stack at a time, and none where a first start fails."""

from __future__ import annotations

import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from turnchain.orchestrator_core.errors import SettingsError
from turnchain.workers.embedded import prepared, try_lock

LOCK: Final = "turnchain.lock"
_OF_NOBODY: Final = {"lost+found"}
"""What a new file system has in it."""


@dataclass(slots=True)
class DataDirectory:
    """A claimed directory."""

    path: Path
    is_kept: bool = False

    def keep(self) -> None:
        """What was made in it is worth something from now on."""
        self.is_kept = True


def usual_directory() -> Path:
    """Where nobody names one: beside the project; for root, whose home the servers' user cannot enter, /var/lib."""
    return Path(".turnchain") if os.geteuid() else Path("/var/lib/turnchain")


@contextmanager
def claimed(directory: Path) -> Generator[DataDirectory]:
    """Make the directory where it is missing, and keep every other stack out of it.

    The lock is the system's, so that it never outlives its process. At the end everything that was made is removed
    again, unless there was data before, or `keep` was called.

    Raises:
        SettingsError: it is in use, is a file, holds something else, or cannot be made, entered or written.
    """
    path = directory.resolve()
    made: list[Path] = []
    is_new = False
    claim = DataDirectory(path)
    try:
        with _refusing(path):
            made = [place for place in (path, *path.parents) if not place.exists()]
            _check_kind(path)
            prepared(path)
            entries = {each.name for each in path.iterdir()} - _OF_NOBODY
            if entries and LOCK not in entries and not (path / "postgres" / "lock").exists():
                raise SettingsError(
                    f"{str(path)!r} holds something else ({min(entries)!r}): name a new directory, or an empty one"
                )
            lock = (path / LOCK).open("a+")
        with lock:
            _take(lock)
            is_new = not entries
            # Beside somebody's project: not to be committed with it.
            ignored = path / ".gitignore"
            if not ignored.exists():
                ignored.write_text("*\n")
            try:
                yield claim
            finally:
                if is_new and not claim.is_kept:
                    _clear(path)
    finally:
        for place in made:
            with suppress(OSError):  # there is something in it, and be it somebody else's
                place.rmdir()


def _check_kind(path: Path) -> None:
    existing = next(place for place in (path, *path.parents) if place.exists())
    if not existing.is_dir():
        raise SettingsError(f"{str(existing)!r} is a file: name a directory")


def _take(lock: IO[str]) -> None:
    lock.seek(0)
    if not try_lock(lock.fileno()):
        directory, owner = str(Path(lock.name).parent), lock.read().strip()
        raise SettingsError(
            f"{directory!r} is in use by process {owner}: stop that one, or name another directory"
        )
    lock.truncate()
    lock.write(f"{os.getpid()}\n")
    lock.flush()


def _clear(path: Path) -> None:
    """Remove everything, the lock last: whoever has waited for it finds nothing else."""
    with suppress(OSError):
        for each in sorted(path.iterdir(), key=lambda each: each.name == LOCK):
            if each.name not in _OF_NOBODY:
                shutil.rmtree(each, ignore_errors=True) if each.is_dir() else each.unlink()


@contextmanager
def _refusing(path: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise SettingsError(
            f"{str(path)!r} cannot be used: {error.strerror}; name another directory"
        ) from None
