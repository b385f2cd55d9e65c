"""What an author may write, and every mistake in it, found at construction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.orchestrator_core.builders import bump, counter
from turnchain.orchestrator_core.callbacks import END, AgentResult
from turnchain.orchestrator_core.definition import HistoryWindow, Intent, Orchestrator, as_intent
from turnchain.orchestrator_core.errors import OrchestratorConfigError, SupervisorFailedError


@dataclass
class Parrot:
    """An agent."""

    name: str = "parrot"
    description: str = "repeats"

    def execute(self, input: str, **_: Any) -> AgentResult:
        return AgentResult(text=input)


def test_a_whole_definition_is_accepted() -> None:
    definition = Orchestrator(
        name="support",
        version="7",
        intents={"say": Parrot(), "do": bump, "end": Intent(run=bump, next=lambda ctx: END)},
        route=lambda ctx: "say",
        evaluate=lambda ctx: None,
        iterate=True,
        max_iterations=3,
        initial_agent="say",
        history_window=HistoryWindow(router=0, agents=lambda history: history[:1]),
        keep_snapshots="all",
        on_drift=lambda drift: {},
        providers={"db": lambda asked: {}},
        state={"slots": {}},
    )

    assert definition.iteration_limit == 3


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", ""),
        ("name", "  "),
        ("name", None),
        ("name", 7),
        ("intents", None),
        ("intents", {}),
        ("intents", [bump]),
        ("intents", {"": bump}),
        ("intents", {END: bump}),
        ("intents", {7: bump}),
        ("route", None),
        ("route", "bump"),
        ("version", 2),
        ("evaluate", "always"),
        ("iterate", "yes"),
        ("max_iterations", 0),
        ("max_iterations", -1),
        ("max_iterations", 1.5),
        ("max_iterations", float("nan")),
        ("max_iterations", True),
        ("initial_agent", "ghost"),
        ("initial_agent", END),
        ("history_window", 5),
        ("history_window", None),
        ("keep_snapshots", 0),
        ("keep_snapshots", -3),
        ("keep_snapshots", "some"),
        ("keep_snapshots", True),
        ("keep_snapshots", None),
        ("on_drift", "migrate"),
        ("on_drift", None),
        ("providers", None),
        ("providers", [bump]),
        ("state", None),
        ("state", [1]),
    ],
)
def test_a_mistake_is_found_at_construction(field: str, value: Any) -> None:
    """[O 1.2, O 16.5 T4] The error names the field and the value. [O 1.2.11]."""
    with pytest.raises(OrchestratorConfigError, match=field) as refused:
        counter(**{field: value})

    assert refused.value.code == "ORCHESTRATOR_CONFIG"
    assert refused.value.category == "validation"
    assert refused.value.context["authoring"] is True
    assert refused.value.context["field"] == field


@pytest.mark.parametrize("role", ["router", "agents"])
@pytest.mark.parametrize("value", [None, 1.5, "5", True])
def test_a_window_is_a_number_or_a_function(role: str, value: Any) -> None:
    with pytest.raises(OrchestratorConfigError, match=rf"history_window\.{role}"):
        counter(history_window=HistoryWindow(**{role: value}))


@pytest.mark.parametrize("state", [{"x": {1, 2}}, {"x": float("nan")}, {1: "x"}])
def test_the_initial_state_is_json(state: Any) -> None:
    with pytest.raises(OrchestratorConfigError, match=r"^state") as refused:
        counter(state=state)

    assert refused.value.context["authoring"] is True


def test_a_provider_is_a_function() -> None:
    with pytest.raises(OrchestratorConfigError, match=r"providers\['db'\]"):
        counter(providers={"db": "postgresql://"})


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"run": bump, "agent": Parrot()},
        {"run": "bump"},
        {"agent": bump},
        {"agent": "parrot"},
        {"run": bump, "next": END},
        {"run": bump, "next": "bump"},
    ],
)
def test_an_intent_has_one_unit_and_functions_around_it(entry: dict[str, Any]) -> None:
    """[O 3.1.3] `next=END` is what an author writes who means `next=lambda ctx: END`."""
    with pytest.raises(SupervisorFailedError):
        Intent(**entry)


@pytest.mark.parametrize("entry", [None, "bump", 7, counter()])
def test_an_entry_that_is_no_intent_is_named(entry: Any) -> None:
    """[O 1.2.8, O 3.1.8] The supervisor's error is the cause; an orchestrator is no intent."""
    with pytest.raises(OrchestratorConfigError, match=r"intents\['x'\]") as refused:
        counter(intents={"x": entry})

    assert isinstance(refused.value.__cause__, SupervisorFailedError)
    assert refused.value.context["code"] == "SUPERVISOR_FAILED"
    assert refused.value.context["intent"] == "x"


def test_entries_are_told_apart_by_what_they_can_do() -> None:
    """[O 3.1.2]."""
    agent = Parrot()

    assert as_intent(bump) == Intent(run=bump)
    assert as_intent(agent) == Intent(agent=agent, description="repeats")
    whole = Intent(run=bump, description="counts")
    assert as_intent(whole) is whole


def test_a_turn_may_iterate_ten_times_unless_told() -> None:
    assert counter(iterate=True).iteration_limit == 10
    assert counter(iterate=True, max_iterations=2).iteration_limit == 2
    assert counter(iterate=False, max_iterations=2).iteration_limit == 1


def test_each_session_begins_with_a_copy_of_the_state() -> None:
    """[O 2.2.2]."""
    definition = counter(state={"slots": {"city": None}})

    definition.initial_state()["slots"]["city"] = "Bern"

    assert definition.initial_state() == {"slots": {"city": None}}
