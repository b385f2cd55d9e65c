from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.plot import draw
from benchmarks.results import Results
from tests.benchmarks.builders import cell, grown, results


@pytest.mark.parametrize(
    "found",
    [
        results(cells=[cell("staged", 77.0)]),
        results(
            cells=[cell("staged", 77.0), cell("noop7", 100.0, sessions=1)],
            grown=[grown("staged", [9.0] * 200)],
        ),
    ],
)
def test_whatever_was_measured_makes_a_picture(found: Results, tmp_path: Path) -> None:
    draw(found, tmp_path / "new" / "run.png")

    assert (tmp_path / "new" / "run.png").read_bytes().startswith(b"\x89PNG")
