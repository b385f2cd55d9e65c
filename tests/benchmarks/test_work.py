from __future__ import annotations

import threading
from pathlib import Path

from benchmarks.work import HANGS_IN, evidence, leave_evidence


def test_only_the_first_who_runs_the_third_iteration_hangs(tmp_path: Path) -> None:
    file = tmp_path / "evidence"
    leave_evidence(file, HANGS_IN - 1)
    first = threading.Thread(target=leave_evidence, args=(file, HANGS_IN), daemon=True)
    first.start()
    deadline = threading.Event()
    while len(evidence(file)) < 2 and not deadline.wait(0.01):
        pass

    second = threading.Thread(target=leave_evidence, args=(file, HANGS_IN), daemon=True)
    second.start()
    second.join(5)

    assert first.is_alive()
    assert not second.is_alive()
    assert [iteration for iteration, _ in evidence(file)] == [HANGS_IN - 1, HANGS_IN, HANGS_IN]
