"""The one environment that a process's tasks run with."""

from __future__ import annotations

import pytest

import turnchain
from tests.tasks.desk import bot
from turnchain.orchestrator_core.errors import SettingsError
from turnchain.orchestrator_core.sweep import SweepPolicy
from turnchain.tasks.environment import (
    TaskEnvironment,
    environment,
    install_environment,
    remove_environment,
)


def new_environment() -> TaskEnvironment:
    return TaskEnvironment(core=turnchain.in_process(bot)._env, sweep=SweepPolicy())


def test_the_last_one_installed_holds_until_it_is_removed() -> None:
    first, second = new_environment(), new_environment()

    install_environment(first)
    install_environment(second)
    assert environment() is second

    remove_environment()
    remove_environment()
    with pytest.raises(SettingsError, match=r"celery -A turnchain\.workers\.app worker"):
        environment()
