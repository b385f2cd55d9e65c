"""The environment that this process's tasks run with: installed once by `workers`, read by every task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from turnchain.orchestrator_core.contracts import Stage
from turnchain.orchestrator_core.environment import Environment
from turnchain.orchestrator_core.errors import SettingsError
from turnchain.orchestrator_core.sweep import SweepPolicy
from turnchain.orchestrator_core.turn_context import nowhere

# A task is called by Celery with a message and nothing else, so what it works with has to be found from here. This is
# one of the project's two module-level states; the other is the Celery app.
_installed: list[TaskEnvironment] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEnvironment:
    """What tasks need beside the core's environment."""

    core: Environment
    sweep: SweepPolicy
    goes_on: Callable[[Stage], bool] = nowhere
    """Whether this process calls a stage in place when the one before it is through."""


def install_environment(env: TaskEnvironment) -> None:
    """Set the environment of this process, in place of an earlier one."""
    _installed[:] = [env]


def remove_environment() -> None:
    """Forget it, before a fork or at the end of the process."""
    _installed.clear()


def environment() -> TaskEnvironment:
    """The installed environment.

    Raises:
        SettingsError: this process runs a task of ours and was not set up as a worker.
    """
    if not _installed:
        raise SettingsError(
            "no Turnchain environment in this process: start workers with `celery -A turnchain.workers.app worker`, or "
            "call turnchain.install(app) where your Celery app is made"
        )
    return _installed[0]
