"""The arithmetic of the reports: percentiles, and ratios that are taken within a round."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence


def percentile(values: Sequence[float], percent: float) -> float:
    """The least value that so many percent of the values do not exceed (nearest rank).

    Raises:
        ValueError: there are no values, or percent is not within 0 to 100.
    """
    if not values or not 0 <= percent <= 100:
        raise ValueError(f"percentile {percent!r} of {len(values)} values: give 0 to 100, of some")
    rank = max(1, math.ceil(len(values) * percent / 100))
    return sorted(values)[rank - 1]


def median_ratio(
    numerators: Mapping[int, float], denominators: Mapping[int, float]
) -> float | None:
    """The median over the rounds that both have of each round's ratio; None if there is no such round.

    A machine that is slow for a minute is slow for both, so a ratio is steadier than what it is made of.
    """
    ratios = [
        value / denominators[key] for key, value in numerators.items() if denominators.get(key)
    ]
    return statistics.median(ratios) if ratios else None


def median(values: Iterable[float]) -> float | None:
    """The median; None of nothing."""
    found = list(values)
    return statistics.median(found) if found else None
