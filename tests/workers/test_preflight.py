"""A worker that cannot work does not start: one sentence, an exit code, and no stack of calls."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from celery import Celery

from turnchain import Orchestrator
from turnchain.orchestrator_core.errors import (
    SchemaMissingError,
    SettingsError,
    StoreUnavailableError,
)
from turnchain.orchestrator_core.registry import Registry
from turnchain.workers.preflight import POOLS, check_app, check_ledger, check_pool, check_registry
from turnchain.workers.settings import Settings

ROOT = Path(__file__).parents[2]
SECRET = "hunter2"


@pytest.mark.parametrize("pool", [*POOLS, "celery.concurrency.prefork", "celery.concurrency.solo"])
def test_pools_that_can_keep_a_lease_are_taken(pool: str) -> None:
    check_pool(pool)


@pytest.mark.parametrize(
    "pool", ["gevent", "eventlet", "celery.concurrency.gevent", "celery.concurrency.eventlet"]
)
def test_green_pools_are_refused_with_the_reason_and_the_way_out(pool: str) -> None:
    kind = pool.rpartition(".")[2]

    with pytest.raises(SettingsError, match=rf"pool = {kind} is not supported.*--pool threads"):
        check_pool(pool)


def test_an_app_that_runs_tasks_where_they_are_published_is_refused() -> None:
    app = Celery(set_as_current=False)
    check_app(app)
    app.conf.task_always_eager = True

    with pytest.raises(SettingsError, match="task_always_eager is on"):
        check_app(app)


def test_a_worker_with_nothing_to_serve_is_refused() -> None:
    with pytest.raises(SettingsError, match="TURNCHAIN_ORCHESTRATORS is empty"):
        check_registry(Registry([]))

    check_registry(
        Registry([Orchestrator(name="a", intents={"a": lambda _: None}, route=lambda _: "a")])
    )


def test_a_database_with_the_tables_is_taken(database_url: str) -> None:
    check_ledger(Settings(postgres_url=database_url))


def test_a_database_without_the_tables_is_refused(empty_database_url: str) -> None:
    with pytest.raises(SchemaMissingError, match="turnchain schema"):
        check_ledger(Settings(postgres_url=empty_database_url))


def test_a_server_that_nobody_reaches_is_refused() -> None:
    with pytest.raises(StoreUnavailableError, match=r"127\.0\.0\.1:1") as refused:
        check_ledger(Settings(postgres_url=f"postgresql://user:{SECRET}@127.0.0.1:1/db"))

    assert SECRET not in str(refused.value)


# What follows starts `celery worker`, as an operator does.


def start(
    environ: Mapping[str, str | None], *options: str, path: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """`celery worker` with these variables on top of ones that would do; it has to end by itself."""
    given: dict[str, str | None] = {
        **{name: value for name, value in os.environ.items() if not name.startswith("TURNCHAIN_")},
        "TURNCHAIN_BROKER_URL": "redis://127.0.0.1:1/0",
        "TURNCHAIN_ORCHESTRATORS": "turnchain.examples.booking.bot:booking",
        "PYTHONPATH": os.pathsep.join([str(path), str(ROOT)]),
        **environ,
    }
    command = [sys.executable, "-m", "celery", "-A", "turnchain.workers.app", "worker"]
    return subprocess.run(
        [*command, "-Q", "turns,control,maintenance", *options],
        env={name: value for name, value in given.items() if value is not None},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
        cwd=path,
    )


def sentence_of(done: subprocess.CompletedProcess[str]) -> str:
    """The one sentence of a worker that refused to start."""
    assert done.returncode not in (0, None)
    assert "Traceback" not in done.stdout + done.stderr
    assert "ready." not in done.stdout + done.stderr
    assert SECRET not in done.stdout + done.stderr
    ours = [line for line in done.stderr.splitlines() if line.startswith("turnchain: ")]
    assert len(ours) == 1, done.stderr
    return ours[0]


@pytest.mark.acceptance
@pytest.mark.parametrize(
    ("environ", "told"),
    [
        ({"TURNCHAIN_POSTGRES_URL": None}, "TURNCHAIN_POSTGRES_URL is not set: set it"),
        ({"TURNCHAIN_POSTGRES_URL": f"mysql://u:{SECRET}@h/d"}, "must begin with postgresql://"),
        ({"TURNCHAIN_BROKER_URL": f"http://:{SECRET}@h"}, "must begin with one of redis://"),
        ({"TURNCHAIN_LEASE": "soon"}, "TURNCHAIN_LEASE = 'soon' is not usable"),
        ({"TURNCHAIN_LEASE": "inf"}, "TURNCHAIN_LEASE = 'inf' is not usable"),
        ({"TURNCHAIN_LEASE": "1"}, "is more than a third of TURNCHAIN_LEASE"),
        ({"TURNCHAIN_MAX_ATTEMPTS": "0"}, "TURNCHAIN_MAX_ATTEMPTS = '0' is not usable"),
        ({"TURNCHAIN_STAGE_QUEUES": "dispach=models"}, "'dispach' is no stage with a queue"),
        ({"TURNCHAIN_ORCHESTRATORS": ""}, "TURNCHAIN_ORCHESTRATORS is empty"),
        ({"TURNCHAIN_ORCHESTRATORS": "shop.nowhere:bot"}, "names 'shop.nowhere:bot'"),
        (
            {"TURNCHAIN_ORCHESTRATORS": "turnchain.examples.booking.bot:nobody"},
            "there is no Orchestrator there",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_worker_with_wrong_settings_does_not_start(
    database_url: str, environ: dict[str, str | None], told: str
) -> None:
    given: dict[str, str | None] = {"TURNCHAIN_POSTGRES_URL": database_url, **environ}

    assert told in sentence_of(start(given, "--pool", "threads"))


@pytest.mark.acceptance
@pytest.mark.parametrize("pool", ["threads", "prefork", "solo"])
def test_a_worker_without_its_database_does_not_start(pool: str) -> None:
    done = start(
        {"TURNCHAIN_POSTGRES_URL": f"postgresql://user:{SECRET}@127.0.0.1:1/db"}, "--pool", pool
    )

    assert "Postgres at 127.0.0.1:1, database db cannot be reached" in sentence_of(done)


@pytest.mark.acceptance
def test_a_worker_without_the_tables_does_not_start(empty_database_url: str) -> None:
    done = start({"TURNCHAIN_POSTGRES_URL": empty_database_url})

    assert "lacks Turnchain's tables" in sentence_of(done)
    assert "turnchain schema" in sentence_of(done)


BROKEN = {
    "a name that is not there": "bot = nobody",
    "no Python": "bot = (",
    "a missing variable": "import os\nbot = os.environ['NOBODY_SETS_THIS']",
    "a mistake in the definition": (
        "from turnchain import Orchestrator\nbot = Orchestrator(name='', intents={}, route=None)"
    ),
}


@pytest.mark.acceptance
@pytest.mark.parametrize("pool", ["threads", "prefork"])
@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_a_worker_whose_orchestrators_cannot_be_imported_does_not_start(
    database_url: str, tmp_path: Path, text: str, pool: str
) -> None:
    """What broke: Celery swallows what a signal's handler raises, and the worker ran on with nothing to serve."""
    (tmp_path / "shop_bot.py").write_text(text)

    done = start(
        {"TURNCHAIN_POSTGRES_URL": database_url, "TURNCHAIN_ORCHESTRATORS": "shop_bot:bot"},
        "--pool",
        pool,
        path=tmp_path,
    )

    sentence = sentence_of(done)
    assert "shop_bot" in sentence or "name = ''" in sentence


GREEN = """
class _Anything:
    def __init__(self, *_, **__): pass
    def __getattr__(self, name): return _Anything()
    def __call__(self, *_, **__): return _Anything()
    def __mro_entries__(self, bases): return (object,)
Greenlet = GreenletExit = Timeout = type("Timeout", (BaseException,), {})
def patch_all(*_, **__): pass
def __getattr__(name):
    if name.startswith("__"): raise AttributeError(name)
    return _Anything()
"""


@pytest.mark.acceptance
def test_a_worker_on_gevent_does_not_start(database_url: str, tmp_path: Path) -> None:
    """With something in gevent's place that patches nothing: what counts is that the pool's name is looked at."""
    package = tmp_path / "gevent"
    package.mkdir()
    for name in ("__init__", "monkey", "signal", "pool", "local", "event"):
        (package / f"{name}.py").write_text(GREEN)

    done = start({"TURNCHAIN_POSTGRES_URL": database_url}, "--pool", "gevent", path=tmp_path)

    assert "pool = gevent is not supported" in sentence_of(done)
