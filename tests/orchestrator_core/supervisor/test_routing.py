"""Which intent an iteration dispatches, and what is not an answer to that."""

from __future__ import annotations

from typing import Any

import pytest

from tests.orchestrator_core.builders import run_of
from turnchain.orchestrator_core.callbacks import END
from turnchain.orchestrator_core.contracts import Carry, Decision, IterationSnapshot
from turnchain.orchestrator_core.errors import SupervisorFailedError, SupervisorRoutingError
from turnchain.orchestrator_core.supervisor.routing import (
    decided_before,
    decision_from,
    directive_from,
)

INTENTS = frozenset({"worker", "other"})
SETTLED = IterationSnapshot(iteration=0, decision=Decision(source="route", next="worker"), state={})


def test_reassignment_outranks_next_outranks_initial_agent() -> None:
    """[O 3.4]."""
    carry = Carry(reassign_to="other", next="worker", feedback="try again")

    reassigned = decided_before(run_of(carry=carry), "worker")
    followed = decided_before(run_of(carry=Carry(next="other")), "worker")
    begun = decided_before(run_of(), "worker")

    assert reassigned == Decision(source="route", next="other", reasoning="try again")
    assert followed == Decision(source="route", next="other")
    assert begun == Decision(source="initialAgent", next="worker")
    assert decided_before(run_of(), None) is None


@pytest.mark.parametrize(
    "fields", [{"turn_index": 1}, {"iterations": (SETTLED,)}], ids=["second turn", "iteration 1"]
)
def test_the_initial_agent_opens_a_sessions_first_turn_only(fields: dict[str, Any]) -> None:
    """[O 0.3 X9]."""
    assert decided_before(run_of(**fields), "worker") is None


@pytest.mark.parametrize("returned", ["worker", END])
def test_a_key_and_end_are_decisions(returned: str) -> None:
    assert decision_from(returned, INTENTS) == Decision(source="route", next=returned)


@pytest.mark.parametrize(
    "returned", ["ghost", "", None, 7, True, [], ["worker"], ["worker", 42], {"next": "worker"}]
)
def test_anything_else_is_an_invalid_route(returned: Any) -> None:
    """[O 3.5, O 16.3 53] Fan-out is a later issue: a list is no answer yet."""
    with pytest.raises(SupervisorRoutingError) as refused:
        decision_from(returned, INTENTS)

    assert refused.value.code == "SUPERVISOR_INVALID_ROUTE"
    assert refused.value.context == {
        "returned": repr(returned),
        "available_keys": ["other", "worker"],
    }


def test_only_next_may_say_end() -> None:
    """[O 3.4.3, O 3.11.2]."""
    assert directive_from(END, INTENTS, "next") == END

    with pytest.raises(SupervisorFailedError, match="reassign_to gave"):
        directive_from(END, INTENTS, "reassign_to")


@pytest.mark.parametrize("asked", ["next", "reassign_to"])
def test_a_directive_is_a_key_or_no_opinion(asked: str) -> None:
    assert directive_from("other", INTENTS, asked) == "other"
    assert directive_from(None, INTENTS, asked) is None


@pytest.mark.parametrize("asked", ["next", "reassign_to"])
@pytest.mark.parametrize("returned", ["ghost", "", 7, ["worker"]])
def test_anything_else_is_no_directive(returned: Any, asked: str) -> None:
    """[O 3.4.3, O 3.11.3] A failure of the run, not of the route."""
    with pytest.raises(SupervisorFailedError) as refused:
        directive_from(returned, INTENTS, asked)

    assert refused.value.code == "SUPERVISOR_FAILED"
    assert refused.value.context["returned"] == repr(returned)
