"""The desk of each test, cleared afterwards."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import pytest

import turnchain
from tests.tasks.desk import Desk, bot, new_app
from turnchain.orchestrator_core.environment import Policy
from turnchain.tasks.environment import install_environment, remove_environment


@pytest.fixture
def desk() -> Generator[Desk]:
    # As a worker's: an engine admits nobody else's turns.
    core = replace(turnchain.in_process(bot)._env, policy=Policy())
    desk = Desk(new_app(), core)
    install_environment(desk.env)
    yield desk
    remove_environment()
    for task in desk.app.tasks.values():
        while len(task.request_stack):
            task.pop_request()
    desk.messages()
    desk.app.close()
