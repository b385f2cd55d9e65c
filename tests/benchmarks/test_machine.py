from __future__ import annotations

import os
import subprocess
import sys

import psutil
import pytest

from benchmarks.machine import IDLE, Reading, between, pid_if_called, read

BURN = "import time\nwhile time.process_time() < 0.3: pass"


def test_foreign_load_is_what_nobody_of_ours_has_used() -> None:
    cpus = os.cpu_count() or 1
    before = Reading(100.0, {"worker": 1.0, "caller": 2.0, IDLE: 5.0}, 50.0)
    after = Reading(110.0, {"worker": 4.0, "caller": 3.0, IDLE: 6.0}, 50.0 + 5.0 + cpus)

    spent = between(before, after)

    assert spent.parts == {"worker": 3.0, "caller": 1.0}
    assert spent.total == 4.0
    assert spent.foreign_load == pytest.approx(cpus / (10 * cpus))


def test_processors_that_did_less_than_we_saw_carry_no_foreign_load() -> None:
    spent = between(Reading(0.0, {"worker": 0.0}, 0.0), Reading(1.0, {"worker": 0.5}, 0.4))

    assert spent.foreign_load == 0.0


def test_the_time_of_a_child_that_has_ended_is_not_lost() -> None:
    parent = f"import subprocess, sys\nsubprocess.run([sys.executable, '-c', {BURN!r}])\nprint(flush=True)\ninput()"
    with subprocess.Popen(
        [sys.executable, "-c", parent], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin
        assert process.stdout
        process.stdout.readline()

        reading = read({"worker": [process.pid]})

        process.stdin.close()
    assert reading.parts["worker"] >= 0.3


def test_a_process_is_found_only_under_its_name() -> None:
    own = psutil.Process()

    assert pid_if_called(own.name(), own.pid) == own.pid
    assert pid_if_called("postgres", own.pid) is None
    assert pid_if_called(psutil.Process(own.ppid()).name(), own.pid, parent=True) == own.ppid()
    assert pid_if_called("postgres", 2**22 + 1) is None
