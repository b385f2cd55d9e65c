from __future__ import annotations

import json
from pathlib import Path

from benchmarks.results import read, write
from benchmarks.rounds import CALM
from benchmarks.work import Shape
from tests.benchmarks.builders import cell, counted, grown, recovered, results


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    found = results(
        cells=[cell("staged", 100.0), cell("staged", 90.0, round=2, p50_ms=None)],
        counted=[counted("staged", 6000.0, statements=None)],
        grown=[grown("staged", [9.0, 8.0, 8.5])],
        recovered=[recovered("staged", 21.5), recovered("handwritten", None)],
    )

    write(found, tmp_path / "new" / "run.json")

    assert read(tmp_path / "new" / "run.json") == found


def test_the_file_is_plain_json_with_every_round(tmp_path: Path) -> None:
    file = tmp_path / "run.json"

    write(
        results(
            cells=[cell("noop7", 100.0), cell("noop7", 110.0, round=2)], grown=[grown("x", [1.0])]
        ),
        file,
    )

    read_back = json.loads(file.read_text())
    assert [(each["round"], each["turns_per_second"]) for each in read_back["cells"]] == [
        (1, 100.0),
        (2, 110.0),
    ]
    assert read_back["grown"][0]["bytes"] == {"50": 100_000, "100": 200_000, "200": 400_000}
    assert read_back["began_at"].startswith("2026-01-02T03:04:05")


def test_noisy_rounds_are_left_out_where_two_calm_ones_remain() -> None:
    calm = [cell("staged", rate, round=number) for number, rate in ((1, 100.0), (2, 104.0))]
    noisy = cell("staged", 10.0, round=3, foreign_load=CALM + 0.01)

    found = results(cells=[*calm, noisy])

    assert found.value("turns_per_second", "staged", Shape.SINGLE, 8) == 102.0


def test_noisy_rounds_count_where_fewer_than_two_are_calm() -> None:
    loud = [
        cell("staged", rate, round=number, foreign_load=0.5)
        for number, rate in ((1, 50.0), (2, 60.0))
    ]
    calm = cell("staged", 100.0, round=3)

    found = results(cells=[*loud, calm])

    assert found.value("turns_per_second", "staged", Shape.SINGLE, 8) == 60.0


def test_cells_of_other_shapes_and_sessions_are_not_mixed_in() -> None:
    found = results(
        cells=[
            cell("staged", 100.0),
            cell("staged", 1.0, shape=Shape.FIVE),
            cell("staged", 2.0, sessions=1),
            cell("inline", 3.0),
        ]
    )

    assert found.value("turns_per_second", "staged", Shape.SINGLE, 8) == 100.0
    assert found.value("turns_per_second", "staged", Shape.FIVE, 64) is None


def test_the_processor_time_of_a_cell_is_the_sum_of_its_parts() -> None:
    found = results(cells=[cell("staged", 100.0)])

    assert found.value("cpu_ms_total", "staged", Shape.SINGLE, 8) == 2.0
