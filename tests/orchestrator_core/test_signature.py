"""What changes the fingerprint of a definition, and what does not."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest

from tests.orchestrator_core.builders import bump, counter
from tests.orchestrator_core.test_definition import Parrot
from turnchain.orchestrator_core.callbacks import END
from turnchain.orchestrator_core.definition import HistoryWindow, Intent
from turnchain.orchestrator_core.signature import signature_of

BUMP = Intent(run=bump, next=lambda ctx: END)


def test_a_signature_names_its_scheme() -> None:
    """[O 6.3.8]."""
    assert re.fullmatch("s1:[0-9a-f]{16}", signature_of(counter()))


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "other"},
        {"intents": {"bump": BUMP, "more": bump}},
        {"intents": {"renamed": BUMP}},
        {"intents": {"bump": Intent(run=bump, description="counts")}},
        {"intents": {"bump": Parrot()}},
        {"evaluate": lambda ctx: None},
        {"initial_agent": "bump"},
        {"max_iterations": 10},
        {"iterate": True},
        {"history_window": HistoryWindow(router=lambda history: history)},
        {"history_window": HistoryWindow(agents=lambda history: history)},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_routes_a_turn_changes_it(changes: dict[str, Any]) -> None:
    """[O 6.3.5] Also `max_iterations=10`, which differs from leaving it out."""
    assert signature_of(counter(**changes)) != signature_of(counter())


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Parrot(), Parrot(name="cockatoo")),
        (Parrot(), Parrot(description="repeats more")),
        (Parrot(), Intent(agent=Parrot(), description="overridden")),
    ],
)
def test_an_agents_name_and_description_change_it(first: Any, second: Any) -> None:
    assert signature_of(counter(intents={"x": first})) != signature_of(
        counter(intents={"x": second})
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"version": "2"},
        {"state": {"count": 41}},
        {"intents": {"bump": lambda ctx: None}},
        {"route": lambda ctx: END},
        {"history_window": HistoryWindow(router=1, agents=99)},
        {"keep_snapshots": 1},
        {"on_drift": "accept"},
        {"providers": {"db": lambda asked: {}}},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_routes_nothing_does_not_change_it(changes: dict[str, Any]) -> None:
    """[O 6.3.6] Bodies of callables and `next` neither."""
    assert signature_of(counter(**changes)) == signature_of(counter())


def test_the_order_of_intents_does_not_change_it() -> None:
    there = counter(intents={"a": bump, "B": bump, "ä": bump})
    back = counter(intents={"ä": bump, "B": bump, "a": bump})

    assert signature_of(there) == signature_of(back)


def test_it_is_the_same_in_every_process() -> None:
    """Drift is judged between hosts, whatever their locale and the seed of their hashes. [O 6.3.7]."""
    code = (
        "from turnchain.orchestrator_core.signature import signature_of\n"
        "from tests.orchestrator_core.builders import bump, counter\n"
        "print(signature_of(counter(intents={'a': bump, 'B': bump})))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            check=True,
            capture_output=True,
            text=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": "."},
        ).stdout
        for seed in ("1", "2")
    }

    assert seen == {signature_of(counter(intents={"a": bump, "B": bump})) + "\n"}
