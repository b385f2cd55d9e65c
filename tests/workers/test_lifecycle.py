"""What a worker announces of itself: as many slots as it can run stages at once, where it is ours at all."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import psycopg
import pytest

from turnchain.examples.booking.fleet import Worker
from turnchain.workers.lifecycle import slots_of

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("pool", "concurrency", "slots"),
    [
        ("celery.concurrency.thread", 8, 8),
        ("celery.concurrency.thread", None, 1),
        ("celery.concurrency.solo", 8, 1),
        ("solo", "auto", 1),
    ],
)
def test_a_pool_has_as_many_slots_as_it_runs_stages_at_once(
    pool: str, concurrency: object, slots: int
) -> None:
    assert slots_of(pool, concurrency) == slots


def test_auto_is_as_many_as_there_are_processors() -> None:
    """What broke: Celery resolves it later, so that the worker failed on it and ran on with nothing to serve."""
    assert slots_of("celery.concurrency.thread", "auto") == len(os.sched_getaffinity(0))


@pytest.fixture
def environ(database_url: str, redis_url: str, key_prefix: str) -> dict[str, str]:
    return {
        **os.environ,
        "TURNCHAIN_POSTGRES_URL": database_url,
        "TURNCHAIN_BROKER_URL": redis_url,
        "TURNCHAIN_KEY_PREFIX": key_prefix,
        "TURNCHAIN_ORCHESTRATORS": "turnchain.examples.booking.bot:booking",
        "PYTHONPATH": str(ROOT),
    }


@contextmanager
def running(worker: Worker) -> Generator[None]:
    worker.start()
    try:
        worker.wait_until_ready()
        yield
    finally:
        worker.terminate()


def announced(url: str) -> list[tuple[Any, ...]]:
    """Slots and queues of each process."""
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT slots, queues FROM turnchain_processes").fetchall()


def until(holds: Callable[[], object]) -> None:
    deadline = monotonic() + 5
    while not holds():
        assert monotonic() < deadline
        threading.Event().wait(0.02)


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("pool", "queues", "settings", "slots"),
    [
        ("threads", "turns,control,maintenance", {}, [3]),
        ("prefork", "turns", {}, [1, 1, 1]),
        ("solo", "turns", {}, [1]),
        ("threads", "control,maintenance", {}, [0]),
        ("prefork", "maintenance", {}, [0, 0, 0]),
        ("threads", "models", {"TURNCHAIN_STAGE_QUEUES": "dispatch=models"}, [3]),
    ],
)
def test_a_worker_announces_slots_for_what_it_reads(
    environ: dict[str, str],
    tmp_path: Path,
    pool: str,
    queues: str,
    settings: Mapping[str, str],
    slots: list[int],
) -> None:
    """What broke: a worker of no stage's queue had turns admitted for it, which then stood in front of others."""
    arguments = ("-Q", queues)
    worker = Worker("w", {**environ, **settings}, tmp_path / "log", pool, 3, arguments=arguments)

    with running(worker):
        until(lambda: len(announced(environ["TURNCHAIN_POSTGRES_URL"])) == len(slots))
        found = announced(environ["TURNCHAIN_POSTGRES_URL"])

    assert [count for count, _ in found] == slots
    assert {tuple(read) for _, read in found} == {tuple(sorted(queues.split(",")))}
    assert announced(environ["TURNCHAIN_POSTGRES_URL"]) == []


SHOP = """
import os
from celery import Celery
import turnchain

app = Celery("shop", broker=os.environ["TURNCHAIN_BROKER_URL"])
app.conf.broker_transport_options = {"global_keyprefix": os.environ["TURNCHAIN_KEY_PREFIX"]}
turnchain.install(app)
other = Celery("other", broker=os.environ["TURNCHAIN_BROKER_URL"])
other.conf.broker_transport_options = {"global_keyprefix": os.environ["TURNCHAIN_KEY_PREFIX"]}
"""


@pytest.mark.acceptance
@pytest.mark.parametrize("pool", ["threads", "prefork"])
@pytest.mark.parametrize(
    ("app", "queues"), [("shop_app:app", "mail"), ("shop_app:other", "turns,control,maintenance")]
)
def test_a_worker_that_is_none_of_ours_runs_without_us(
    environ: dict[str, str], tmp_path: Path, pool: str, app: str, queues: str
) -> None:
    """The shop's mail goes on while our database is away, though the same code installs us."""
    (tmp_path / "shop_app.py").write_text(SHOP)
    away = {
        **environ,
        "TURNCHAIN_POSTGRES_URL": "postgresql://user@127.0.0.1:1/db",
        "PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)]),
    }
    worker = Worker(
        "mail", away, tmp_path / "log", pool, 1, app=app, arguments=("-Q", queues, "-l", "INFO")
    )

    with running(worker):
        assert worker.running.poll() is None

    assert "Traceback" not in (tmp_path / "log").read_text()
