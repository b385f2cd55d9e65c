"""Directories for servers: made, entered, locked."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
import threading
from collections.abc import Generator
from datetime import timedelta
from pathlib import Path
from time import monotonic

from turnchain.orchestrator_core.errors import SettingsError, StoreUnavailableError
from turnchain.workers.embedded.accounts import enters, servers_account

_LOCK_LIMIT = timedelta(seconds=15)
_LOOK_SECONDS = 0.05


@contextlib.contextmanager
def temporary_directory(below: Path | None = None) -> Generator[Path]:
    """A new directory that the servers' user can enter, removed at the end; below that one, if they can."""
    account = servers_account()
    places = [below or Path(tempfile.gettempdir()), Path("/tmp"), Path("/var/tmp")]
    place = next((place for place in places if enters(account, place)), places[0])
    directory = Path(tempfile.mkdtemp(prefix="turnchain-", dir=place))
    try:
        directory.chmod(0o711)
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def servers_enter(directory: Path) -> bool:
    """Whether servers could have their place below this directory, which need not exist yet."""
    existing = next(place for place in (directory, *directory.parents) if place.exists())
    return enters(servers_account(), existing)


def prepared(directory: Path) -> Path:
    """Make the directory where it is missing. It stays ours; only `data` is the servers' user's.

    Raises:
        SettingsError: the servers' user cannot enter it. Nothing was made then.
    """
    directory = directory.resolve()
    account = servers_account()
    if account and not servers_enter(directory):
        raise SettingsError(
            f"the user {account.pw_name!r}, whom the embedded servers run as when root starts them, "
            f"cannot enter {str(directory)!r}: choose a directory below /var/tmp or /srv"
        )
    for place in reversed([each for each in (directory, *directory.parents) if not each.exists()]):
        place.mkdir()
        place.chmod(0o711 if account else 0o700)
    return directory


@contextlib.contextmanager
def held(directory: Path) -> Generator[int]:
    """Take the directory's lock; yields its file, for the server to inherit.

    The lock lasts as long as any process has the file open. So whoever starts after a killed process waits here until
    that one's server has written its last, and never meets one that is still alive.

    Raises:
        StoreUnavailableError: another server keeps the directory.
    """
    file = os.open(directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    deadline = monotonic() + _LOCK_LIMIT.total_seconds()
    try:
        while not try_lock(file):
            if monotonic() > deadline:
                raise StoreUnavailableError(
                    f"another server is running in {str(directory)!r}: end it, or choose another directory"
                )
            threading.Event().wait(_LOOK_SECONDS)
        yield file
    finally:
        os.close(file)


def try_lock(file: int) -> bool:
    """Lock an open file if nobody else has, and say whether it is ours now."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def password(directory: Path) -> str:
    """The directory's own, made at the first call."""
    file = directory / "password"
    if not file.exists():
        # Under another name first: a password that was cut short would lock everybody out.
        unfinished = directory / "password.new"
        unfinished.touch(mode=0o600)
        unfinished.write_text(secrets.token_hex(16))
        unfinished.rename(file)
    return file.read_text()
