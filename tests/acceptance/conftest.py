"""The crash walk's fixtures."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest

from tests.acceptance.database import Database
from tests.acceptance.harness import QUICK, ROOT, Floor
from tests.acceptance.rabbitmq import VARIABLE, virtual_host
from tests.acceptance.shop import DOORS, EVIDENCE_URL


@contextlib.contextmanager
def floor_on(
    database_url: str,
    broker_url: str,
    key_prefix: str,
    settings: Mapping[str, str] = QUICK,
    chain_mode: str = "staged",
) -> Generator[Floor]:
    """A test's world on these servers; whatever was started in it is killed at the end."""
    database = Database(database_url, float(settings.get("TURNCHAIN_LEASE", "20")))
    database.prepare()
    with (
        tempfile.TemporaryDirectory(prefix="crash-walk-") as place,
        contextlib.ExitStack() as stack,
    ):
        directory = Path(place)
        (directory / "doors").mkdir()
        environ = {
            **{key: value for key, value in os.environ.items() if not key.startswith("TURNCHAIN_")},
            **settings,
            "TURNCHAIN_POSTGRES_URL": database_url,
            "TURNCHAIN_BROKER_URL": broker_url,
            "TURNCHAIN_KEY_PREFIX": key_prefix,
            "TURNCHAIN_ORCHESTRATORS": "tests.acceptance.shop:walk",
            "TURNCHAIN_CHAIN_MODE": chain_mode,
            EVIDENCE_URL: database_url,
            DOORS: str(directory / "doors"),
            "PYTHONPATH": str(ROOT),
        }
        try:
            yield Floor(database, broker_url, key_prefix, directory, environ, stack)
        finally:
            stack.close()
            _tell(directory, database)


def _tell(directory: Path, database: Database) -> None:
    """Print what happened, which pytest shows where a test failed."""
    for path in sorted(directory.glob("*.log")):
        lines = [line for line in path.read_text(errors="replace").splitlines() if line[:1] == "{"]
        sys.stdout.write("\n".join([f"-- {path.name}", *lines[-60:], ""]))
    for row in database.rows("SELECT * FROM shop_rows ORDER BY id DESC LIMIT 60")[::-1]:
        sys.stdout.write(" ".join(str(value) for value in row.values()) + "\n")


@pytest.fixture
def chain_mode() -> str:
    """How a turn comes from stage to stage; `harness.both_modes` and `harness.inline` have it otherwise."""
    return "staged"


@pytest.fixture
def floor(database_url: str, redis_url: str, key_prefix: str, chain_mode: str) -> Generator[Floor]:
    """Own database and keys on the tests' servers."""
    with floor_on(database_url, redis_url, key_prefix, chain_mode=chain_mode) as floor:
        yield floor


@pytest.fixture(scope="session")
def _rabbitmq_url() -> Generator[str]:
    with virtual_host() as url:
        if url is None:
            pytest.skip(f"no RabbitMQ: set {VARIABLE}, or run one here with rabbitmqctl at hand")
        yield url


@pytest.fixture(params=["redis", pytest.param("rabbitmq", marks=pytest.mark.rabbitmq)])
def broker_floor(request: pytest.FixtureRequest, database_url: str) -> Generator[Floor]:
    """As `floor`, on each broker."""
    if request.param == "redis":
        yield request.getfixturevalue("floor")
        return
    with floor_on(database_url, request.getfixturevalue("_rabbitmq_url"), "") as floor:
        yield floor
