from __future__ import annotations

import pytest

from benchmarks.figures import median_ratio, percentile


@pytest.mark.parametrize(
    ("percent", "expected"), [(0, 1), (50, 50), (95, 95), (99, 99), (99.5, 100), (100, 100)]
)
def test_a_percentile_is_the_least_value_that_so_many_do_not_exceed(
    percent: float, expected: int
) -> None:
    values = [*range(100, 0, -1)]

    assert percentile(values, percent) == expected


def test_a_single_value_is_each_of_its_percentiles() -> None:
    assert {percentile([7.0], percent) for percent in (0, 50, 99)} == {7.0}


@pytest.mark.parametrize(("values", "percent"), [([], 50), ([1.0], -1), ([1.0], 101)])
def test_a_percentile_of_nothing_or_out_of_range_is_refused(
    values: list[float], percent: float
) -> None:
    with pytest.raises(ValueError, match="percentile"):
        percentile(values, percent)


def test_a_ratio_is_taken_within_each_round() -> None:
    """The second round was slow for both: the quotient of the medians, 100/110, would hide that."""
    ours, theirs = {1: 100.0, 2: 10.0, 3: 120.0}, {1: 110.0, 2: 5.0, 3: 120.0}

    assert median_ratio(ours, theirs) == 1.0


def test_rounds_that_only_one_side_has_make_no_ratio() -> None:
    assert median_ratio({1: 10.0, 2: 30.0}, {2: 10.0, 3: 1.0}) == 3.0
    assert median_ratio({1: 10.0}, {2: 10.0}) is None
    assert median_ratio({1: 10.0}, {1: 0.0}) is None
