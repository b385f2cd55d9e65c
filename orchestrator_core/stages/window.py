"""Stage 4: how much of the history each role sees. [O 6.2]

Stored once: a turn that is taken over later works with the same slices. [O 4.3.1]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from turnchain.orchestrator_core.contracts import (
    Message,
    Outcome,
    Provider,
    TurnStatus,
    WindowedHistory,
)
from turnchain.orchestrator_core.contracts.events import HISTORY_WINDOWED
from turnchain.orchestrator_core.definition import HistoryWindow, Slicer
from turnchain.orchestrator_core.environment import Environment
from turnchain.orchestrator_core.errors import (
    OrchestratorConfigError,
    TurnchainError,
    text_of,
    to_record,
)
from turnchain.orchestrator_core.messages import messages_from
from turnchain.orchestrator_core.ports import Unit
from turnchain.orchestrator_core.turn_context import TurnContext

DURABLE: Final = False


def run(turn: TurnContext, env: Environment) -> TurnContext:
    """Cut the two slices."""
    given = turn.claim.request.history
    history = turn.work.history if isinstance(given, Provider) else given
    try:
        windows = windowed(history, turn.definition.history_window)
    except TurnchainError as error:
        return turn.decided(Outcome(status=TurnStatus.FAILED, error=to_record(error)))
    turn = turn.found(windows=windows, history=())
    return turn.saying(HISTORY_WINDOWED, messageCount=len(windows.agents))


def commit(turn: TurnContext, env: Environment, unit: Unit) -> None:
    """Nothing beside the hand-over."""


def windowed(history: Sequence[Message], window: HistoryWindow) -> WindowedHistory:
    """Both slices, each from the full history. [O 0.3 X7]

    Raises:
        OrchestratorConfigError: a slicer raised, or returned what are no messages. [O 6.2.7]
    """
    return WindowedHistory(
        router=_slice(history, window.router, "router"),
        agents=_slice(history, window.agents, "agents"),
    )


def _slice(history: Sequence[Message], window: int | Slicer, role: str) -> tuple[Message, ...]:
    if isinstance(window, int):
        return tuple(history[-window:]) if window > 0 else ()
    try:
        return messages_from(window(tuple(history)))
    except Exception as error:
        raise OrchestratorConfigError(
            f"history_window.{role} raised {type(error).__name__}: {text_of(error)}",
            {"field": f"history_window.{role}"},
        ) from error
