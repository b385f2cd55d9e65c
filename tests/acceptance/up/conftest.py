"""A project of its own for each test, and what is left in it is killed."""

from __future__ import annotations

from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.acceptance.up.harness import Up
from turnchain.workers.embedded import temporary_directory


@pytest.fixture
def project() -> Generator[Path]:
    with temporary_directory() as directory:
        yield directory


@pytest.fixture
def up(project: Path) -> Generator[Callable[..., Up]]:
    """Makes a `turnchain up`; whatever is left of one at the end is killed."""
    made: list[Up] = []

    def up(*arguments: str, project: Path = project, **environ: str) -> Up:
        made.append(Up(project, arguments, environ))
        return made[-1]

    yield up
    for each in made:
        each.close()
