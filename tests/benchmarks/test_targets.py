from __future__ import annotations

import pytest

from benchmarks.recovery import Killed
from benchmarks.results import Results
from benchmarks.targets import Verdict, judge
from benchmarks.work import Shape
from tests.benchmarks.builders import cell, counted, grown, recovered, results


def verdict(found: Results, says: str) -> Verdict:
    return next(each for each in judge(found) if each.target.says == says)


def test_a_rate_is_judged_by_its_ratio_of_one_run() -> None:
    found = results(
        cells=[
            cell("staged", 77.0), cell("noop7", 100.0),
            cell("staged", 60.0, sessions=64), cell("noop7", 100.0, sessions=64),
        ]
    )  # fmt: skip

    at_8 = verdict(found, "staged / noop7, turns/s at 8")
    at_64 = verdict(found, "staged / noop7, turns/s at 64")

    assert (at_8.found, at_8.is_met, at_8.says) == (pytest.approx(0.77), True, "met by 10%")
    assert (at_64.found, at_64.is_met, at_64.says) == (pytest.approx(0.6), False, "MISSED by 14%")


def test_what_should_be_small_is_missed_when_it_is_large() -> None:
    found = results(
        cells=[cell("staged", 10.0, sessions=1), cell("noop7", 19.0, sessions=1)],
        counted=[counted("inline", 6000.0), counted("handwritten", 3000.0)],
    )

    slow = verdict(found, "staged / noop7, p50 at 1")
    small = verdict(found, "inline / handwritten, Postgres bytes a turn")

    assert (slow.found, slow.is_met) == (pytest.approx(1.9), False)
    assert (small.found, small.says) == (2.0, "met by 20%")


def test_five_iterations_are_judged_apart_from_one() -> None:
    found = results(
        cells=[
            cell("inline", 10.0), cell("handwritten", 100.0),
            cell("inline", 50.0, shape=Shape.FIVE), cell("handwritten", 100.0, shape=Shape.FIVE),
        ]
    )  # fmt: skip

    assert verdict(found, "inline / handwritten, turns/s at 8").is_met is False
    assert verdict(found, "inline / handwritten, five iterations, turns/s at 8").is_met is True


def test_growth_compares_the_last_turns_with_those_behind_the_first() -> None:
    flat = grown("staged", [50.0] + [10.0] * 100 + [11.0] * 99)
    steep = grown("staged", [50.0] + [10.0] * 100 + [13.0] * 99, shape=Shape.KEPT)

    found = results(grown=[flat, steep])

    assert verdict(found, "staged, turn 200 / turn 2").found == pytest.approx(1.1)
    assert verdict(found, "staged, turn 200 / turn 2").is_met is True
    assert verdict(found, "staged, turn 200 / turn 2, everything kept").is_met is False


def test_the_turn_that_makes_the_session_is_left_out() -> None:
    found = grown("staged", [50.0, *range(10, 0, -1), *[7.0] * 189])

    assert found.early_ms == 5.5
    assert found.late_ms == 7.0


def test_an_answer_that_never_came_is_missed() -> None:
    found = results(
        recovered=[recovered("inline", None), recovered("inline", 1.5, killed=Killed.CHILD)]
    )

    never = verdict(found, "inline, worker killed, answer after")

    assert (never.is_met, never.says) == (False, "MISSED, there was no answer")
    assert verdict(found, "inline, child killed, answer after").is_met is True


def test_what_was_not_measured_is_neither_met_nor_missed() -> None:
    assert {each.says for each in judge(results())} == {"not measured"}
