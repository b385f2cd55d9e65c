from __future__ import annotations

import pytest

from benchmarks.tables import Table, exponent, foreword, number, tables
from tests.benchmarks.builders import cell, counted, grown, recovered, results


def test_a_table_reads_alike_in_a_terminal_and_on_a_page() -> None:
    table = Table("Speed", [["", "turns/s"], ["staged", "100"], ["noop7", "9"]])

    assert table.text() == "Speed\n        turns/s\nstaged      100\nnoop7         9"
    assert (
        table.markdown()
        == "**Speed**\n\n|  | turns/s |\n|---|---:|\n| staged | 100 |\n| noop7 | 9 |"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (1234.5, "1234"), (99.96, "100.0"), (12.34, "12.3"), (0.456, "0.46")],
)
def test_a_number_has_three_digits_that_mean_something(value: float | None, text: str) -> None:
    assert number(value) == text


def test_every_part_that_was_measured_has_its_table() -> None:
    found = results(
        cells=[cell("staged", 77.0), cell("noop7", 100.0)],
        counted=[counted("staged", 6000.0)],
        grown=[grown("staged", [10.0] * 200)],
        recovered=[recovered("staged", None)],
    )

    titles = [table.title for table in tables(found)]

    assert len(titles) == len(set(titles)) == 6
    assert [len(table.rows) for table in tables(results())] == []


def test_a_contender_with_noisy_rounds_is_marked() -> None:
    found = results(cells=[cell("staged", 77.0, foreign_load=0.3), cell("noop7", 100.0)])

    names = [row[0] for row in tables(found)[0].rows[1:]]

    assert names == ["staged ~", "noop7"]
    assert "1 of 2 cells had more than 15% foreign load" in foreword(found)


def test_bytes_that_grow_with_the_turns_have_the_exponent_one() -> None:
    linear = grown("x", [1.0], bytes={50: 1000, 100: 2000, 200: 4000})
    quadratic = grown("x", [1.0], bytes={50: 1000, 100: 4000, 200: 16000})

    assert exponent(linear) == pytest.approx(1.0)
    assert exponent(quadratic) == pytest.approx(2.0)
    assert exponent(grown("x", [1.0], bytes={})) is None
