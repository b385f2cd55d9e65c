"""`turnchain up`: what it promises to whoever starts it, and to whoever has to clean up after it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import psycopg
import pytest
import redis

from tests.acceptance.up.harness import Up, ask

SERVERS = pytest.mark.parametrize(
    ("program", "name"), [("bin/postgres -D", "Postgres"), ("valkey-server", "Valkey")]
)

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(180)]


def test_it_answers_at_the_printed_urls_and_ends_without_a_trace(
    up: Callable[..., Up], project: Path
) -> None:
    first = up("--workers", "2").start().wait_until_up()

    with psycopg.connect(first.url("Postgres")) as connection:
        assert connection.execute("SELECT count(*) FROM turnchain_turns").fetchone() == (0,)
    with redis.Redis.from_url(first.url("Redis")) as client:
        assert client.ping()
    with urlopen(first.url("Flower"), timeout=10) as page:
        assert page.status == 200
    assert ask(first) == "HELLO\n"
    assert len(first.processes("worker")) >= 3

    assert first.end(signal.SIGINT) == 0, first.complaint
    assert first.complaint == ""
    assert first.processes() == []
    left = {each.name for each in project.iterdir()} - {"__pycache__"}
    assert left == {"bots.py", "data", "err", "out"}

    # What was said is still there for the next one.
    second = up("--workers", "1", "--no-flower").start().wait_until_up()
    with psycopg.connect(second.url("Postgres")) as connection:
        assert connection.execute("SELECT count(*) FROM turnchain_turns").fetchone() == (1,)
    assert "Flower" not in second.said
    assert ask(second) == "HELLO\n"

    assert second.end(signal.SIGTERM) == 0, second.complaint
    assert second.processes() == []


@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl")
@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_nothing_survives_its_death_and_the_next_start_is_a_normal_one(
    up: Callable[..., Up], pool: str
) -> None:
    killed = up("--workers", "1", "--pool", pool, "--concurrency", "2").start().wait_until_up()

    processes = killed.processes()
    assert len(processes) > 6

    killed.running.kill()
    killed.running.wait()
    # At once: it has to wait for what is still ending there.
    following = up("--workers", "1", "--no-flower").start().wait_until_up()

    assert [each for each in processes if each.is_running()] == []
    assert ask(following) == "HELLO\n"
    assert following.end() == 0


def test_a_worker_that_dies_is_reported_and_started_again(up: Callable[..., Up]) -> None:
    running = up("--workers", "1", "--no-flower").start().wait_until_up()
    (worker,) = running.processes("worker1@")

    worker.kill()

    running.wait_until(lambda: "worker1 was ended by SIGKILL; started again in 1 s" in running.said)
    assert ask(running) == "HELLO\n"
    assert running.processes("worker1@") not in ([], [worker])
    assert running.end() == 0


@SERVERS
def test_a_server_that_dies_ends_everything_with_a_sentence(
    up: Callable[..., Up], program: str, name: str
) -> None:
    running = up("--workers", "1", "--no-flower").start().wait_until_up()

    running.processes(program)[0].kill()

    assert running.running.wait(60) == 1
    assert running.complaint == f"turnchain up: {name} was ended by SIGKILL\n"
    running.wait_until_none_is_left()


@SERVERS
def test_a_server_that_dies_during_the_start_ends_it_with_a_sentence(
    up: Callable[..., Up], program: str, name: str
) -> None:
    starting = up("--workers", "1", "--no-flower").start()
    starting.wait_until(lambda: starting.processes("worker1@"))

    starting.processes(program)[0].kill()

    assert starting.running.wait(60) == 2
    assert starting.complaint == f"turnchain up: {name} was ended by SIGKILL\n"
    starting.wait_until_none_is_left()
    assert not starting.directory.exists()


@pytest.mark.long  # sixteen processes that start at once
def test_two_that_start_at_once_find_ports_of_their_own(
    up: Callable[..., Up], project: Path
) -> None:
    other = project / "other"
    other.mkdir(mode=0o711)
    both = [up("--workers", "1").start(), up("--workers", "1", project=other).start()]

    for each in both:
        each.wait_until_up()

    for kind in ("Postgres", "Redis", "Flower"):
        ports = {urlsplit(each.url(kind)).port for each in both}
        assert len(ports) == 2, kind
    assert [ask(each) for each in both] == ["HELLO\n", "HELLO\n"]
    assert [each.end() for each in both] == [0, 0]
