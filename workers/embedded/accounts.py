"""Who the servers run as: ourselves, or `nobody` where we are root."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from turnchain.orchestrator_core.errors import SettingsError


def servers_account() -> pwd.struct_passwd | None:
    """Who the servers run as, where that is not who we are.

    Raises:
        SettingsError: we are root, and there is nobody to run them as.
    """
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("nobody")
    except KeyError:
        raise SettingsError(
            "Postgres refuses to run as root, and this system has no user 'nobody' to run it as: "
            "start Turnchain as an ordinary user"
        ) from None


def enters(account: pwd.struct_passwd | None, directory: Path) -> bool:
    """Whether the servers' user gets as far as into the directory."""
    return account is None or all(
        place.stat().st_mode & 0o001 or place.stat().st_uid == account.pw_uid
        for place in (directory, *directory.parents)
    )


def give(path: Path, account: pwd.struct_passwd | None) -> None:
    """Make it the servers' user's."""
    if account:
        os.chown(path, account.pw_uid, account.pw_gid)


def check_owner(data: Path, account: pwd.struct_passwd | None) -> None:
    """Refuse what somebody else's server has made: ours could not read it.

    Raises:
        SettingsError: names both users.
    """
    owner, ours = data.stat().st_uid, account.pw_uid if account else os.geteuid()
    if owner != ours:
        raise SettingsError(
            f"{str(data)!r} belongs to the user {_name(owner)}, and the server would run as "
            f"{_name(ours)}: start as the user who made it, or choose another directory"
        )


def _name(user: int) -> str:
    try:
        return repr(pwd.getpwuid(user).pw_name)
    except KeyError:
        return str(user)
