"""The stack as a program uses it, the demo for one."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from time import monotonic
from urllib.parse import urlsplit

import psycopg
import pytest

from turnchain.orchestrator_core.errors import StoreUnavailableError
from turnchain.workers.embedded import temporary_directory
from turnchain.workers.stack import Stack, StackOptions, running

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(180)]
PATIENCE_SECONDS = 60


@pytest.fixture
def directory() -> Generator[Path]:
    with temporary_directory() as directory:
        yield directory / "data"


def options(directory: Path, **environ: str) -> StackOptions:
    return StackOptions(
        directory,
        workers=1,
        pool="prefork",
        concurrency=2,
        flower=False,
        durable=False,
        database="demo-1",
        environ={
            **os.environ,
            "TURNCHAIN_ORCHESTRATORS": "turnchain.examples.booking.bot:booking",
            **environ,
        },
    )


def until(fact: Callable[[], object]) -> None:
    deadline = monotonic() + PATIENCE_SECONDS
    while not fact():
        assert monotonic() < deadline, "it never came to that"
        threading.Event().wait(0.02)


def ends(stack: Stack) -> bool:
    try:
        stack.check()
    except StoreUnavailableError:
        return True
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_program_runs_it_kills_a_worker_and_sees_it_come_back(directory: Path) -> None:
    notices: list[str] = []

    with running(options(directory, TURNCHAIN_LOG_LEVEL="ERROR"), tell=notices.append) as stack:
        assert urlsplit(stack.postgres_url).path == "/demo-1"
        assert stack.environ["TURNCHAIN_POSTGRES_URL"] == stack.postgres_url
        with psycopg.connect(stack.postgres_url) as connection:
            assert connection.execute("SELECT count(*) FROM turnchain_turns").fetchone() == (0,)
        assert [each.name for each in stack.processes] == ["worker1", "control", "beat"]
        assert stack.flower_url is None
        assert stack.logs.is_dir()
        (worker,) = stack.workers
        first = worker.pid
        family = [first, *worker.children()]
        assert len(family) == 3

        worker.kill()

        assert [pid for pid in family if Path(f"/proc/{pid}/cmdline").exists()] == []
        until(lambda: worker.pid not in (None, first) and len(worker.children()) == 2)
        assert "worker1 was ended by SIGKILL; started again in 1 s" in notices
        stack.check()
        last = [stack.postgres.process.pid, stack.valkey.process.pid, worker.pid]

    assert [pid for pid in last if Path(f"/proc/{pid}").exists()] == []
    assert (directory / "postgres/data").is_dir()


def test_it_says_when_a_server_has_ended(directory: Path) -> None:
    with running(options(directory)) as stack:
        stack.postgres.process.kill()

        with pytest.raises(StoreUnavailableError, match="Postgres was ended by SIGKILL"):
            stack.wait()
        assert ends(stack)


def test_a_failure_of_the_programs_own_passes_through_after_everything_has_ended(
    directory: Path,
) -> None:
    seen: list[Stack] = []

    with pytest.raises(FileNotFoundError, match="the program's own"):
        fail_in(directory, seen)

    assert all(child.pid is None for child in seen[0].processes)
    assert seen[0].postgres.process.poll() is not None


def fail_in(directory: Path, seen: list[Stack]) -> None:
    with running(options(directory)) as stack:
        seen.append(stack)
        raise FileNotFoundError("the program's own")
