"""The seven stages, in order, under the names of their tasks.

A stage is `run(turn, env) -> TurnContext | Park`. It decides in pure functions and acts through the environment's
ports. What must be written together with the hand-over goes through `commit(turn, env, unit)`; `DURABLE` says whether
losing that commit in a server crash would lose more than a repetition of the stage. [DESIGN 3, DESIGN 4]
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from turnchain.orchestrator_core.contracts import Stage
from turnchain.orchestrator_core.environment import Environment
from turnchain.orchestrator_core.ports import Unit
from turnchain.orchestrator_core.stages import compact, dispatch, drift, load, lock, persist, window
from turnchain.orchestrator_core.turn_context import Park, TurnContext


class StageModule(Protocol):
    """What each module of this package offers."""

    @property
    def DURABLE(self) -> bool:  # noqa: N802 - a constant of the module
        """Whether the hand-over waits for the server's disk."""
        ...

    def run(self, turn: TurnContext, env: Environment) -> TurnContext | Park:
        """Do the stage's work. Safe to run again: each module's docstring says why."""
        ...

    def commit(self, turn: TurnContext, env: Environment, unit: Unit) -> None:
        """Add what must be written together with the hand-over."""
        ...


BY_STAGE: Final[Mapping[Stage, StageModule]] = {
    Stage.LOAD: load,
    Stage.DRIFT: drift,
    Stage.LOCK: lock,
    Stage.WINDOW: window,
    Stage.DISPATCH: dispatch,
    Stage.PERSIST: persist,
    Stage.COMPACT: compact,
}

__all__ = ["BY_STAGE", "StageModule"]
