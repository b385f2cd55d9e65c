"""The booking example as a person runs it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import redis

from turnchain.examples.booking.dialogues import SAMPLE, read

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.acceptance


def play(environ: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TURNCHAIN_")}
    return subprocess.run(
        [sys.executable, "-m", "examples.booking", *options],
        cwd=ROOT,
        env={**clean, **environ},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


def row(out: str, name: str) -> str:
    (value,) = re.findall(rf"^{re.escape(name)}  +(\S.*)$", out, re.MULTILINE)
    return value


def databases(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT datname FROM pg_database").fetchall()
    return {name for (name,) in found if name.startswith("booking_")}


@contextmanager
def swept(redis_url: str) -> Generator[None]:
    """The player leaves its queues' bindings in a broker that was given; a given one is somebody's."""
    with redis.Redis.from_url(redis_url) as client:
        before = set(client.scan_iter(match="booking-*", count=1000))
        yield
        for key in set(client.scan_iter(match="booking-*", count=1000)) - before:
            client.delete(key)


def everything_held(done: subprocess.CompletedProcess[str]) -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    turns = [turn for dialogue in read(SAMPLE) for turn in dialogue.turns]
    assert row(done.stdout, "turns") == str(len(turns))
    assert row(done.stdout, "effects recorded") == str(sum(len(turn.calls) for turn in turns))
    for name in ("lost", "doubled", "wrong", "not awaiting input"):
        assert row(done.stdout, name) == "0"
    assert done.stdout.rstrip().endswith("everything held")
    assert done.stdout.count("SELECT") >= 4  # each count can be made again by hand


@pytest.mark.parametrize("pool", ["threads", "prefork"])
def test_the_sample_is_played_on_the_servers_given_and_leaves_nothing_there(
    postgres_url: str, redis_url: str, pool: str
) -> None:
    servers = {"TURNCHAIN_POSTGRES_URL": postgres_url, "TURNCHAIN_BROKER_URL": redis_url}

    before = databases(postgres_url)

    with swept(redis_url):
        done = play(servers, "--pool", pool, "--workers", "1")

    everything_held(done)
    assert databases(postgres_url) <= before


def test_the_sample_is_played_on_servers_of_its_own_where_none_is_given() -> None:
    everything_held(play({}, "--workers", "1", "--pool", "threads"))
