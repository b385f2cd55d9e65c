"""The wheel in somebody else's project: a Django shop that owns every name that our folders have.

Nothing is downloaded: the new environment borrows the present one's packages, by a path that brings
neither the checkout nor its editable install.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 30

pytestmark = pytest.mark.acceptance


@dataclass(frozen=True, slots=True)
class Project:
    """A directory with an environment of its own, in which the wheel is installed."""

    directory: Path
    bin: Path

    def run(
        self,
        *command: str,
        environ: Mapping[str, str] | None = None,
        given: str = "",
        patience_seconds: float = PATIENCE_SECONDS,
    ) -> subprocess.CompletedProcess[str]:
        clean = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("TURNCHAIN_", "PYTHON", "VIRTUAL_ENV"))
        }
        return subprocess.run(
            command,
            cwd=self.directory,
            env={**clean, **(environ or {})},
            input=given,
            capture_output=True,
            text=True,
            timeout=patience_seconds,
            check=False,
        )

    def python(self, script: str, environ: Mapping[str, str] | None = None) -> str:
        """What a script of the shop prints. As with `manage.py`, the shop's directory is on the path."""
        done = self.run(
            str(self.bin / "python"),
            "-c",
            f"import sys; sys.path.insert(0, '')\n{script}",
            environ=environ,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from the checkout, offline."""
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = out.glob("*.whl")
    return built


SHOP: Mapping[str, str] = {
    "tasks.py": "WHOSE = 'the shop'\n",
    "celeryconfig.py": "WHOSE = 'the shop'\n",
    "stores/__init__.py": "WHOSE = 'the shop'\n",
    "workers/__init__.py": "WHOSE = 'the shop'\n",
    "gateway/__init__.py": "WHOSE = 'the shop'\n",
    "shop/__init__.py": "from shop.celery import app\n",
    "shop/settings.py": """
import os
from psycopg.conninfo import conninfo_to_dict

given = conninfo_to_dict(os.environ["TURNCHAIN_POSTGRES_URL"])
SECRET_KEY = "a test's own"
INSTALLED_APPS = []
DATABASES = {"default": {
    "ENGINE": "django.db.backends.postgresql",
    "NAME": given["dbname"], "USER": given.get("user", ""), "PASSWORD": given.get("password", ""),
    "HOST": given.get("host", ""), "PORT": given.get("port", ""),
}}
CELERY_BROKER_URL = os.environ["SHOP_BROKER_URL"]
CELERY_BROKER_TRANSPORT_OPTIONS = {"global_keyprefix": os.environ["SHOP_KEY_PREFIX"]}
CELERY_TASK_DEFAULT_QUEUE = "shop"
CELERY_TASK_ROUTES = {"shop.*": {"queue": "shop"}}
""",
    "shop/celery.py": """
import os
from celery import Celery

import turnchain

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "shop.settings")
app = Celery("shop")
app.config_from_object("django.conf:settings", namespace="CELERY")
turnchain.install(app)


@app.task(name="shop.mail")
def mail():
    pass
""",
    "shop/support.py": """
import stores, tasks, workers
from turnchain import Orchestrator


def answer(ctx):
    return {"reply": ctx.input.upper(), "owners": [each.WHOSE for each in (stores, tasks, workers)]}


support = Orchestrator(name="support", intents={"answer": answer}, route=lambda ctx: "answer")
""",
}


@pytest.fixture(scope="module")
def project(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The shop, with the wheel installed without its dependencies."""
    directory = tmp_path_factory.mktemp("project")
    for name, text in SHOP.items():
        file = directory / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    home = directory.parent / f"{directory.name}-venv"
    venv.create(home, with_pip=False, symlinks=True)
    project = Project(directory, home / "bin")
    (site_packages,) = home.glob("lib/python*/site-packages")
    pip = [sys.executable, "-m", "pip", "--python", str(project.bin / "python"), "install"]
    done = subprocess.run(
        [*pip, "--no-deps", "--no-index", "--quiet", "--disable-pip-version-check", str(wheel)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # A plain path: the .pth files in there, which would bring the checkout, are not read.
    (site_packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return project


def test_the_wheel_brings_one_name_and_real_files(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        version = wheel.name.split("-")[1]

    assert {name.partition("/")[0] for name in names} == {
        "turnchain",
        f"turnchain-{version}.dist-info",
    }
    for name in (
        "turnchain/__init__.py",
        "turnchain/py.typed",
        "turnchain/celeryconfig.py",
        "turnchain/orchestrator_core/client.py",
        "turnchain/orchestrator_core/py.typed",
        "turnchain/stores/postgres/sql/schema.sql",
        "turnchain/stores/postgres/sql/accepting.sql",
        "turnchain/tasks/dispatch.py",
        "turnchain/workers/launch.py",
    ):
        assert names.count(name) == 1, name
    assert not [name for name in names if "test" in name.lower() or "__pycache__" in name]


def test_every_module_and_statement_of_the_checkout_is_in_the_wheel(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    folders = ("examples", "orchestrator_core", "stores", "tasks", "workers")
    there = {
        f"turnchain/{file.relative_to(ROOT)}"
        for folder in folders
        for file in (ROOT / folder).rglob("*")
        if file.suffix in (".py", ".sql", ".lua", ".jsonl")
    }

    assert there - names == set()


def test_the_wheel_says_what_it_needs_and_no_more(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata_name,) = [name for name in archive.namelist() if name.endswith("/METADATA")]
        metadata = archive.read(metadata_name).decode()
        assert "LICENSE" in "".join(archive.namelist())

    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist: ")]
    always = [line for line in required if "extra ==" not in line]
    assert [line.split()[1].partition("<")[0].partition(">")[0] for line in always] == ["pydantic"]
    extras = {
        line.split()[1] for line in metadata.splitlines() if line.startswith("Provides-Extra: ")
    }
    assert extras == {"postgres", "redis", "worker", "flower", "embedded"}


def test_nothing_of_ours_can_be_imported_under_the_names_of_our_folders(project: Project) -> None:
    script = """
import importlib, json
told = {}
for name in ("orchestrator_core", "tests", "examples", "benchmarks"):
    try:
        told[name] = importlib.import_module(name).__file__
    except ModuleNotFoundError as error:
        told[name] = error.name
for name in ("tasks", "celeryconfig", "stores", "workers", "gateway"):
    told[name] = importlib.import_module(name).WHOSE
import turnchain, turnchain.tasks, turnchain.stores
told["turnchain"] = turnchain.__file__
print(json.dumps(told))
"""

    told = json.loads(project.python(script))

    assert str(ROOT) not in told["turnchain"]
    assert str(project.bin.parent) in told.pop("turnchain")
    ours = {name: name for name in ("orchestrator_core", "tests", "examples", "benchmarks")}
    shops = dict.fromkeys(("tasks", "celeryconfig", "stores", "workers", "gateway"), "the shop")
    assert told == {**ours, **shops}


def test_the_command_prints_the_schema_which_makes_the_tables(
    project: Project, empty_database_url: str
) -> None:
    done = project.run(str(project.bin / "turnchain"), "schema")

    assert done.returncode == 0, done.stderr
    with psycopg.connect(empty_database_url) as connection:
        connection.execute(done.stdout.encode())
        connection.execute(done.stdout.encode())  # applying it again changes nothing
        found = connection.execute("SELECT count(*) FROM turnchain_turns").fetchone()
    assert found == (0,)


@pytest.mark.timeout(150)
def test_the_demo_runs_where_there_is_no_checkout(project: Project) -> None:
    done = project.run(
        str(project.bin / "turnchain"), "demo", "--no-kill", "--seconds", "1", patience_seconds=120
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "Everything held" in done.stdout
    assert done.stderr == ""


@pytest.fixture
def environ(database_url: str, redis_url: str, key_prefix: str) -> dict[str, str]:
    return {
        "TURNCHAIN_POSTGRES_URL": database_url,
        "TURNCHAIN_ORCHESTRATORS": "shop.support:support",
        "SHOP_BROKER_URL": redis_url,
        "SHOP_KEY_PREFIX": key_prefix,
    }


@pytest.fixture
def worker(project: Project, environ: dict[str, str], tmp_path: Path) -> Generator[Path]:
    """`celery -A shop worker`, as the shop runs it; yields its log."""
    log = tmp_path / "worker.log"
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("TURNCHAIN_", "PYTHON"))
    }
    command = [
        str(project.bin / "python"),
        "-m",
        "celery",
        "-A",
        "shop",
        "worker",
        "--pool",
        "threads",
    ]
    command += ["--concurrency", "2", "-Q", "shop,turns,control,maintenance", "--loglevel", "INFO"]
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            cwd=project.directory,
            env={**clean, **environ},
            stdout=file,
            stderr=file,
        )
    yield log
    process.terminate()
    assert process.wait(PATIENCE_SECONDS) == 0, log.read_text()


def test_a_turn_runs_on_the_shops_own_celery_worker(
    project: Project, environ: dict[str, str], worker: Path
) -> None:
    script = """
import os, django
django.setup()
from django.db import connection, transaction

import turnchain
from shop.celery import app

client = turnchain.connect(os.environ["TURNCHAIN_POSTGRES_URL"], broker=app, orchestrators=["support"])
with transaction.atomic():
    turn = client.enqueue("support", "hello", session_id="s", history=[], connection=connection)
result = turn.result(timeout=20)
print(result.status, result.data["reply"], *result.data["owners"], sep="|")
"""

    out = project.python(script, {**environ, "DJANGO_SETTINGS_MODULE": "shop.settings"})

    assert out.strip() == "awaiting-input|HELLO|the shop|the shop|the shop", worker.read_text()
