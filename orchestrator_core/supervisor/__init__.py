"""The machine that iterates inside one turn. It decides; `stages.dispatch` acts."""

from __future__ import annotations

from turnchain.orchestrator_core.supervisor.actions import (
    Action,
    ActionResult,
    CallEvaluate,
    CallIntent,
    CallNext,
    CallRoute,
    Evaluated,
    Finish,
    IntentReturned,
    NextGiven,
    Raised,
    Routed,
)
from turnchain.orchestrator_core.supervisor.machine import (
    Plan,
    advance,
    begin,
    next_action,
    outcome_of,
    plan_of,
)

__all__ = [
    "Action",
    "ActionResult",
    "CallEvaluate",
    "CallIntent",
    "CallNext",
    "CallRoute",
    "Evaluated",
    "Finish",
    "IntentReturned",
    "NextGiven",
    "Plan",
    "Raised",
    "Routed",
    "advance",
    "begin",
    "next_action",
    "outcome_of",
    "plan_of",
]
