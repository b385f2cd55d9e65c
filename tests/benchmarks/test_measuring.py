from __future__ import annotations

import threading
from collections import Counter
from typing import Any

import pytest

from benchmarks.contenders import Running
from benchmarks.machine import read
from benchmarks.measuring import talk
from benchmarks.work import SESSION_TURNS, Shape

NOBODY: Any = None


def test_sessions_talk_side_by_side_and_each_turn_is_timed() -> None:
    seen: Counter[str] = Counter()
    together = threading.Barrier(3)

    def play(session: str, shape: Shape) -> None:
        seen[session] += 1
        if seen[session] == 1 and session.endswith("-0"):
            together.wait(5)  # nobody goes on before all have begun
        threading.Event().wait(0.005)

    sample = talk(
        Running(play, NOBODY), Shape.SINGLE, lambda: read({}), sessions=3, seconds=0.3, warm_up=0.05
    )

    assert 0 < len(sample.latencies) <= sum(seen.values())
    assert min(sample.latencies) >= 0.005
    assert max(seen.values()) <= SESSION_TURNS
    assert list(sample.cpu_ms) == ["caller"]


def test_a_turn_that_fails_ends_the_measurement() -> None:
    def play(session: str, shape: Shape) -> None:
        raise RuntimeError("no answer")

    with pytest.raises(RuntimeError, match="no answer"):
        talk(
            Running(play, NOBODY), Shape.SINGLE, lambda: read({}), sessions=2, seconds=5, warm_up=5
        )
