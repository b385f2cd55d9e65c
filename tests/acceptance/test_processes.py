"""What each process of a worker holds, and who sweeps. [DESIGN 6]"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.database import wait_for
from tests.acceptance.harness import Floor

pytestmark = pytest.mark.acceptance

BEAT = (sys.executable, "-m", "celery", "-A", "turnchain.workers.app", "beat")
BEAT_MOSTLY = {"lease": 20, "housekeeping": 3, "sweep_interval": 0.3}
"""The worker's own housekeeping comes round once in three seconds: what is seen sooner, beat swept."""


def threads(pid: int) -> list[str]:
    """The names of a process's threads; Python gives them to the system since 3.14 only, so their number counts."""
    return [path.read_text().strip() for path in Path(f"/proc/{pid}/task").glob("*/comm")]


def ports(pid: int) -> set[int]:
    """Local TCP ports of a process's sockets."""
    inodes = set[str]()
    for path in Path(f"/proc/{pid}/fd").iterdir():
        found = (
            re.fullmatch(r"socket:\[(\d+)\]", str(path.readlink())) if path.is_symlink() else None
        )
        if found:
            inodes.add(found[1])
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {int(line[1].partition(":")[2], 16) for line in lines if line[9] in inodes}


def database_ports(floor: Floor) -> set[int]:
    """Where the clients of the test's database are."""
    rows = floor.database.rows(
        "SELECT client_port FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    return {row["client_port"] for row in rows if row["client_port"]}


def test_the_parent_of_a_prefork_pool_holds_no_database_connection_and_no_thread(
    floor: Floor,
) -> None:
    """[DESIGN 6] The parent of a prefork pool holds no connection and no thread; each child holds its own."""
    worker = floor.start(concurrency=2)
    for session in ("s1", "s2", "s3"):
        floor.enqueue(session).result(10)

    clients = database_ports(floor)

    assert len(threads(worker.running.pid)) == 1
    assert not ports(worker.running.pid) & clients
    for child in worker.children():
        assert len(threads(child)) > 1, "housekeeping"
        assert ports(child) & clients


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_the_shutdown_withdraws_the_slots_and_leaves_no_connection(floor: Floor, pool: str) -> None:
    """[DESIGN 5, Admit] Capacity is the slots of live workers: who leaves takes his away at once."""
    worker = floor.start(pool=pool)
    floor.enqueue("s1").result(10)

    assert worker.terminate() == 0

    assert floor.database.value("SELECT count(*) FROM turnchain_processes") == 0
    wait_for(lambda: not database_ports(floor) - ports_of_test(), 5, "no connection left")


def ports_of_test() -> set[int]:
    """Those of this very process, whose client has its own."""
    return ports(int(Path("/proc/self").readlink().name))


def test_beats_drain_what_nobody_sweeps_and_two_of_them_do_no_harm(floor: Floor) -> None:
    """[DESIGN 6] Beat's `turn.drain` calls the same sweep: no beat or ten beats change nothing."""
    # Only at DEBUG does a worker tell of every task.
    floor.start(pool="threads", settings=BEAT_MOSTLY | {"log_level": "DEBUG"})
    settings = {f"TURNCHAIN_{key.upper()}": str(value) for key, value in BEAT_MOSTLY.items()}
    for name in ("b1", "b2"):
        with (floor.directory / f"{name}.log").open("ab") as log:
            beat = subprocess.Popen(
                [*BEAT, "-s", str(floor.directory / name), "--pidfile", ""],
                env={**floor.environ, **settings},
                stdout=log,
                stderr=log,
            )
        floor.stack.callback(beat.wait)
        floor.stack.callback(beat.kill)
    wait_for(lambda: floor.logs().count("Task turn.drain") >= 4, 15, "drains")

    for number in range(6):
        turn = floor.accept(f"s{number}")
        assert turn.result(1.5).ok
        floor.assert_settled_once(turn, f"s{number}")
        assert floor.database.attempts(turn) == {0}
    failed = [line for line in floor.logs().splitlines() if '"level": "ERROR"' in line]
    assert failed == []
