"""How long the model looks."""

from __future__ import annotations

from typing import Final

from hypothesis import HealthCheck, Phase, settings

_BASE: Final = settings(
    deadline=None,
    database=None,
    print_blob=True,
    # Most interleavings are refused by a precondition or are long; neither is a sign of a bad test here.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

SEARCH: Final = settings(
    _BASE,
    derandomize=True,
    max_examples=3_000,
    stateful_step_count=50,
    phases=[Phase.generate],
    report_multiple_bugs=False,
)
"""For planted faults: the first example that fails is enough, nobody reads it. Fifteen times what the shyest needs on
average: hypothesis draws constants from whatever modules are imported, so the examples differ between runs."""

QUICK: Final = settings(_BASE, derandomize=True, max_examples=80, stateful_step_count=60)
"""For every run of the tests: the same examples each time."""

LONG: Final = settings(_BASE, max_examples=4_000, stateful_step_count=120)
"""Minutes, and other examples each time."""
