"""The journal of one side effect."""

from __future__ import annotations

from typing import Literal

from turnchain.orchestrator_core.contracts.base import JSON, Record


class StepRecord(Record):
    """A journaled step: intent before, result after. Found without a result, it is in doubt. [DESIGN 6, Steps]"""

    run_id: str
    effect_key: str
    """The same for every attempt: pass it on as the idempotency key of whatever the step calls."""
    name: str
    status: Literal["intended", "finished"]
    result: JSON = None
    created: bool
    """Whether the call that returned this record wrote the intent; False and `intended` means in doubt."""
