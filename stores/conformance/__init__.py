"""The one exam that every driver passes: ordinary pytest classes, to be subclassed with a `stores` fixture.

    from turnchain.stores.conformance.claiming import ClaimingSuite

    class TestMyClaiming(ClaimingSuite):
        @pytest.fixture
        def stores(self): ...

No test sleeps or moves a clock, so that the exam runs on a real server: a lease that is to expire is
granted for no time at all. Import the suites from their modules: this file has to come first.
"""

from __future__ import annotations

import pytest

# Before the modules are imported, or their failed asserts show no values.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{module}"
        for module in (
            "accepting",
            "admitting",
            "cancelling",
            "checkpoints",
            "claiming",
            "inspecting",
            "listing",
            "keeping",
            "owning",
            "reading",
            "settling",
            "snapshots",
            "steps",
            "sweeping",
            "units",
        )
    )
)
