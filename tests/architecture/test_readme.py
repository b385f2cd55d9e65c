"""The README holds: its code runs, in order, and every command that it names is there."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import threading
import tomllib
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg
import pytest
from celery import Celery

from turnchain.orchestrator_core.contracts import STAGES
from turnchain.workers.cli import main
from turnchain.workers.settings import Settings

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
START_SECONDS = 20


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def commands() -> list[list[str]]:
    """The words of each command, comments left out and pipes taken apart."""
    lines = [line for block in blocks("console") for line in block.splitlines()]
    parts = [part for line in lines for part in line.partition(" #")[0].split(" | ")]
    return [shlex.split(part) for part in parts]


def command(*words: str) -> list[str]:
    """The one command that has these words."""
    (found,) = [each for each in commands() if set(words) <= set(each)]
    return found


def test_there_is_something_to_hold() -> None:
    assert len(blocks("python")) == 3
    assert len(commands()) >= 7


def test_what_an_author_writes_runs_in_place_with_no_server_at_all() -> None:
    namespace: dict[str, Any] = {}

    for block in blocks("python")[:2]:
        exec(compile(block, "README.md", "exec"), namespace)

    assert namespace["result"].data["reply"] == "Order 7 is paid."


@pytest.mark.parametrize("words", commands(), ids=lambda words: " ".join(words)[:40])
def test_every_command_is_one_that_there_is(words: list[str]) -> None:
    program = words[0]
    if program == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
    elif program == "pip":
        extra = words[-1].removeprefix(".[").removesuffix("]")
        assert extra in PROJECT["project"]["optional-dependencies"]
    elif program == "export":
        names = [word.partition("=")[0] for word in words[1:]]
        known = {f"TURNCHAIN_{name.upper()}" for name in Settings.model_fields}
        assert set(names) <= known
        assert "TURNCHAIN_POSTGRES_URL" in names
    elif program == "turnchain":
        assert PROJECT["project"]["scripts"]["turnchain"] == f"{main.__module__}:main"
        assert main(words[1:]) == 0
    else:
        assert program in ("celery", "psql")


def test_the_picture_shows_the_seven_stages_in_their_order() -> None:
    (picture,) = blocks("text")

    (line,) = [line for line in picture.splitlines() if "dispatch ──▶" in line]
    assert line.replace("──▶", " ").split() == [stage.value for stage in STAGES]


def test_every_file_that_is_linked_is_there() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        if "://" not in target:
            assert (ROOT / target).exists(), target


def test_every_setting_and_name_of_ours_is_one_that_there_is() -> None:
    import turnchain

    for name in re.findall(r"`(?:client|turn|turnchain)\.(\w+)", README):
        assert any(
            hasattr(each, name) for each in (turnchain, turnchain.SessionClient, turnchain.Turn)
        ), name
    for name in re.findall(r"`(a(?:enqueue|result|events|cancel|get))`", README):
        assert hasattr(turnchain.SessionClient, name) or hasattr(turnchain.Turn, name), name


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A project with the README's orchestrator where the README puts it."""
    first = blocks("python")[0]
    place = tmp_path / first.splitlines()[0].removeprefix("# ")
    place.parent.mkdir()
    place.write_text(first)
    return tmp_path


def test_its_benchmark_is_that_of_the_last_full_run() -> None:
    (shown,) = re.findall(r"<!-- benchmark -->\n(.*?)\n<!-- /benchmark -->", README, re.DOTALL)

    assert shown.startswith("20")
    assert "| inline |" in shown
    assert shown in (ROOT / "benchmarks" / "results" / "latest.md").read_text()


@contextmanager
def running(words: list[str], environ: Mapping[str, str], cwd: Path, sign: str) -> Generator[Path]:
    """A command of the README, once it has printed the sign that it runs."""
    log = cwd / f"{words[3]}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", *words], cwd=cwd, env=environ, stdout=file, stderr=file
        )
    try:
        deadline = monotonic() + START_SECONDS
        while sign not in log.read_text() and process.poll() is None and monotonic() < deadline:
            threading.Event().wait(0.05)
        assert sign in log.read_text(), log.read_text()
        yield log
    finally:
        process.terminate()
        process.wait(START_SECONDS)


@pytest.mark.acceptance
def test_the_whole_story_runs_as_it_is_told(
    shop: Path,
    empty_database_url: str,
    redis_url: str,
    key_prefix: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (orchestrators,) = [
        word.partition("=")[2] for word in command("export") if "ORCHESTRATORS" in word
    ]
    environ = {
        **os.environ,
        "TURNCHAIN_POSTGRES_URL": empty_database_url,
        "TURNCHAIN_BROKER_URL": redis_url,
        "TURNCHAIN_ORCHESTRATORS": orchestrators,
        "TURNCHAIN_KEY_PREFIX": key_prefix,
        "TURNCHAIN_SWEEP_INTERVAL": "1",
        "PYTHONPATH": os.pathsep.join([str(shop), str(ROOT)]),
    }
    broker = Celery("site", broker=redis_url, set_as_current=False)
    broker.conf.broker_transport_options = {"global_keyprefix": key_prefix}
    namespace = {
        "turnchain": __import__("turnchain"),
        "celery_app": broker,
        "earlier_messages": [{"role": "user", "content": "Hello!"}],
    }
    code = blocks("python")[2].replace("postgresql://…", empty_database_url)

    assert main(command("turnchain")[1:]) == 0
    with psycopg.connect(empty_database_url) as connection:  # what psql does
        connection.execute(capsys.readouterr().out.encode())
    worker, beat = command("celery", "worker"), command("celery", "beat")
    with (
        running(worker, environ, shop, " ready."),
        running(beat, environ, shop, "turnchain-drain"),
    ):
        exec(compile(code, "README.md", "exec"), namespace)

    result: Any = namespace["result"]
    assert result.ok
    assert result.data["reply"] == "Order 7 is paid."
    event: Any = namespace["event"]
    assert event.is_terminal
