"""What the commands that only look have in common: one sentence for each thing that is not there."""

from __future__ import annotations

import os
import subprocess
import sys

import psycopg
import pytest

from tests.workers.cli.conftest import Command
from turnchain.stores.conformance.exam import Given, id_of

READERS = [("turns",), ("sessions",), ("why", id_of("t1")), ("turns", "--json", "--stuck")]
SECRET = "hunter2"


@pytest.mark.parametrize("reader", READERS, ids=" ".join)
def test_a_missing_setting_is_named(command: Command, reader: tuple[str, ...]) -> None:
    done = command(*reader)

    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"turnchain {reader[0]}: TURNCHAIN_POSTGRES_URL is not set")
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("reader", READERS, ids=" ".join)
def test_a_server_that_is_not_there_is_named_without_the_password(
    command: Command, reader: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNCHAIN_POSTGRES_URL", f"postgresql://ann:{SECRET}@127.0.0.1:1/shop")

    done = command(*reader)

    assert (done.status, done.out) == (2, "")
    assert "Postgres at 127.0.0.1:1, database shop cannot be reached" in done.err
    assert SECRET not in done.err
    assert done.err.count("\n") == 1


def test_a_server_that_is_not_there_is_told_in_one_line_and_soon() -> None:
    """What broke: the pool of connections logged each attempt to standard error."""
    environ = {**os.environ, "TURNCHAIN_POSTGRES_URL": "postgresql://127.0.0.1:1/shop"}

    done = subprocess.run(
        [sys.executable, "-m", "turnchain.workers", "turns"],
        env=environ,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("turnchain turns: Postgres at 127.0.0.1:1, database shop cannot")
    assert done.stderr.count("\n") == 1


def test_a_wrong_password_is_a_sentence(
    command: Command, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = postgres_url.rpartition("@")[2]
    monkeypatch.setenv("TURNCHAIN_POSTGRES_URL", f"postgresql://nobody:{SECRET}@{place}")

    done = command("turns")

    assert done.status == 2
    assert "cannot be reached" in done.err
    assert SECRET not in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("reader", READERS, ids=" ".join)
def test_missing_tables_are_a_sentence_with_the_way_out(
    command: Command,
    reader: tuple[str, ...],
    empty_database_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TURNCHAIN_POSTGRES_URL", empty_database_url)

    done = command(*reader)

    assert (done.status, done.out) == (2, "")
    assert "lacks Turnchain's tables" in done.err
    assert "turnchain schema | psql" in done.err
    assert done.err.count("\n") == 1


def test_a_missing_driver_is_named(
    command: Command, given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "turnchain.stores.postgres", None)

    done = command("turns")

    assert done.status == 2
    assert "pip install 'turnchain[worker]'" in done.err
    assert done.err.count("\n") == 1


@pytest.mark.parametrize("options", ["--json", "--limit 9000"])
def test_a_reader_that_has_read_enough_ends_the_list_quietly(
    given: Given, database_url: str, options: str
) -> None:
    """As in `turnchain turns | head`."""
    with psycopg.connect(database_url) as direct:
        direct.execute(
            "INSERT INTO turnchain_turns (turn_id, orchestrator_name, session_id, run_id, request_hash)"
            " SELECT gen_random_uuid(), 'bot', repeat('s', 2000) || n, 'r', 'h' FROM generate_series(1, 500) AS n"
        )
    line = f"{sys.executable} -m turnchain.workers turns {options} --limit 500 | head -n 1"

    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", line],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""
    assert done.returncode == 0
