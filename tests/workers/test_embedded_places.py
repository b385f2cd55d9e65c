"""What a server finds in its directory, and who else is there."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest

from turnchain.orchestrator_core.errors import SettingsError, StoreUnavailableError
from turnchain.workers.embedded import (
    from_usual,
    places,
    refusal,
    start_postgres,
    start_valkey,
    temporary_directory,
)
from turnchain.workers.embedded.accounts import give, servers_account

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root starts servers as somebody else")


@pytest.fixture
def directory() -> Generator[Path]:
    with temporary_directory() as directory:
        yield directory


@pytest.fixture(scope="module")
def _cluster() -> Generator[Path]:
    with temporary_directory() as directory:
        start_postgres(directory / "postgres", durable=False).stop()
        yield directory / "postgres"


@pytest.fixture
def cluster(_cluster: Path, directory: Path) -> Path:
    """A directory that a Postgres was started in before."""
    subprocess.run(["cp", "-a", _cluster, directory / "postgres"], check=True)
    return directory / "postgres"


HOLDS_A_SERVER = """
import sys
from pathlib import Path
from turnchain.workers.embedded import start_postgres
server = start_postgres(Path(sys.argv[1]), durable=False)
print(server.process.pid, flush=True)
sys.stdin.read()
"""


def test_data_of_another_version_are_refused_and_left_alone(cluster: Path) -> None:
    (cluster / "data/PG_VERSION").write_text("17\n")

    with pytest.raises(SettingsError) as refused:
        start_postgres(cluster, durable=False)

    assert f"{str(cluster.resolve() / 'data')!r} was made by Postgres 17" in str(refused.value)
    assert "the installed one is 18." in str(refused.value)
    assert (cluster / "data/base").is_dir()


@as_root
def test_data_of_another_user_are_refused(cluster: Path) -> None:
    os.chown(cluster / "data", 1, 1)

    with pytest.raises(SettingsError, match=r"belongs to the user '\w+', .* run as 'nobody'"):
        start_postgres(cluster, durable=False)


def test_a_pid_file_of_a_process_that_is_gone_is_no_obstacle(cluster: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    leave_pid_file(cluster, gone.pid)

    start_postgres(cluster, durable=False).stop()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_pid_file_whose_number_somebody_else_has_got_is_no_obstacle(
    cluster: Path, directory: Path
) -> None:
    """Postgres looks only whether a process of its user has the number."""
    other = start_valkey(directory / "valkey", durable=False)
    try:
        leave_pid_file(cluster, other.process.pid)

        start_postgres(cluster, durable=False).stop()
    finally:
        other.stop()


def leave_pid_file(cluster: Path, pid: int) -> None:
    file = cluster / "data/postmaster.pid"
    file.write_text(f"{pid}\n{cluster}/data\n1\n1\n\n127.0.0.1\n1 1\nready\n")
    give(file, servers_account())


@pytest.mark.skipif(sys.platform != "linux", reason="needs prctl")
def test_a_start_right_after_a_kill_waits_for_the_server_that_is_ending(cluster: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS_A_SERVER, str(cluster)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as parent:
        assert parent.stdout
        pid = int(parent.stdout.readline())
        # It has not ended when we begin: it cannot before it is continued.
        os.kill(pid, signal.SIGSTOP)
        parent.kill()
    goes_on = threading.Timer(0.5, os.kill, (pid, signal.SIGCONT))
    goes_on.start()

    server = start_postgres(cluster, durable=False)

    try:
        with psycopg.connect(server.url) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
    finally:
        server.stop()
        goes_on.join()


def test_a_directory_whose_server_runs_on_is_refused(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(places, "_LOCK_LIMIT", timedelta(0))
    running = start_valkey(directory / "valkey", durable=False)
    try:
        with pytest.raises(
            StoreUnavailableError, match=r"another server is running in '.*/valkey'"
        ):
            start_valkey(directory / "valkey", durable=False)
    finally:
        running.stop()

    start_valkey(directory / "valkey", durable=False).stop()


@as_root
def test_a_refused_directory_is_not_made(directory: Path) -> None:
    (directory / "home").mkdir(mode=0o700)

    with pytest.raises(SettingsError, match="cannot enter"):
        start_valkey(directory / "home/deep/valkey")

    assert list((directory / "home").iterdir()) == []


def test_ports_are_tried_from_the_usual_one_upwards(directory: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        usual = taken.getsockname()[1]
        assert refusal(usual) == "Address already in use"

        server = start_valkey(directory / "valkey", port=from_usual(usual), durable=False)
        server.stop()

    assert usual < server.port < usual + 100


def test_a_port_that_is_taken_meanwhile_is_passed_over(directory: Path) -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        socket.create_server(("127.0.0.1", 0)) as other,
    ):
        free = other.getsockname()[1]
        other.close()

        server = start_valkey(
            directory / "valkey", port=[taken.getsockname()[1], free], durable=False
        )
        server.stop()

    assert server.port == free
