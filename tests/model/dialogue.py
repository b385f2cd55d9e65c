"""The orchestrator that the model's turns run: some iterations, each with a journaled step, all leaving a trace."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from turnchain.orchestrator_core.callbacks import END, IntentContext, RouteContext
from turnchain.orchestrator_core.contracts import SessionKey, TurnId, TurnRequest
from turnchain.orchestrator_core.definition import Orchestrator

NAME = "dialogue"


class Witness(Protocol):
    """Sees what the author's code is asked to do."""

    def sees_iteration(self, run_id: str, iteration: int) -> None:
        """An intent is called."""
        ...

    def sees_effect(self, run_id: str, effect_key: str) -> None:
        """A step's function is called."""
        ...

    def takes_time(self, what: str) -> None:
        """The author's code is at work, and anything may happen meanwhile."""
        ...


def dialogue(witness: Witness) -> Orchestrator:
    """One process's copy of the definition; all have one signature."""

    def route(context: RouteContext) -> str:
        witness.takes_time("route")
        return END if context.iteration == context.input["iterations"] else "work"

    def work(context: IntentContext) -> dict[str, Any]:
        witness.sees_iteration(context.run_id, context.iteration)
        witness.takes_time("intent")

        def effect(step: Any) -> str:
            witness.sees_effect(context.run_id, step.effect_key)
            witness.takes_time("effect")
            return _entry(context.run_id, context.iteration)

        return {"log": [*context.state["log"], context.step("book", effect)]}

    return Orchestrator(
        name=NAME,
        intents={"work": work},
        route=route,
        iterate=True,
        state={"log": []},
        keep_snapshots="all",
    )


def request(number: int, session: int, iterations: int, deadline: datetime | None) -> TurnRequest:
    """The request of the model's nth turn."""
    return TurnRequest(
        turn_id=TurnId(str(UUID(int=number))),
        session=SessionKey(orchestrator_name=NAME, session_id=f"s{session}"),
        input={"iterations": iterations},
        deadline=deadline,
    )


def log_of(asked: TurnRequest) -> list[str]:
    """What the turn adds to its session's log, however often it was cut."""
    return [_entry(asked.turn_id, iteration) for iteration in range(asked.input["iterations"])]


def _entry(run_id: str, iteration: int) -> str:
    return f"{run_id[-2:]}.{iteration}"
