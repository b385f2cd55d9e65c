"""Which intent an iteration dispatches, and what is not an answer to that. [O 3.4, O 3.5]"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from turnchain.orchestrator_core.callbacks import END
from turnchain.orchestrator_core.contracts import Decision, SupervisorRun
from turnchain.orchestrator_core.errors import SupervisorFailedError, SupervisorRoutingError


def decided_before(run: SupervisorRun, initial_agent: str | None) -> Decision | None:
    """The decision that needs no call of `route`: reassignment, then `next`, then `initial_agent`. [O 3.4]

    `initial_agent` counts on the session's first turn only, in its first iteration. [O 0.3 X9]
    """
    if run.carry.reassign_to:
        return Decision(source="route", next=run.carry.reassign_to, reasoning=run.carry.feedback)
    if run.carry.next:
        return Decision(source="route", next=run.carry.next)
    if initial_agent and run.turn_index == 0 and run.iteration == -1:
        return Decision(source="initialAgent", next=initial_agent)
    return None


def decision_from(returned: Any, intents: Collection[str]) -> Decision:
    """The decision in what `route` returned.

    Raises:
        SupervisorRoutingError: it is neither END nor the key of an intent. [O 3.5]
    """
    if isinstance(returned, str) and (returned == END or returned in intents):
        return Decision(source="route", next=returned)
    raise SupervisorRoutingError(
        f"route returned {returned!r}, which is no intent: return END or one of {sorted(intents)}",
        {"returned": repr(returned)[:200], "available_keys": sorted(intents)},
    )


def directive_from(returned: Any, intents: Collection[str], asked: str) -> str | None:
    """The key in what `next` or `reassign_to` gave, or None for no opinion.

    Raises:
        SupervisorFailedError: it is neither. END is a directive of `next` only. [O 3.4.3, O 3.11.3]
    """
    allowed = {*intents, END} if asked == "next" else set(intents)
    if returned is None or (isinstance(returned, str) and returned in allowed):
        return returned
    raise SupervisorFailedError(
        f"{asked} gave {returned!r}, which is no intent: give None or one of {sorted(allowed)}",
        {"returned": repr(returned)[:200], "available": sorted(allowed)},
    )
