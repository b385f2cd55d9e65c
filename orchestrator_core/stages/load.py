"""Stage 1: which turn of the session this is, and what it builds on. [O 2.2]

Reads the latest checkpoint and, where the request names one, runs the history provider. Writes `work` and the session's
row. Running it twice gives the same, since nobody else can settle a turn of this session meanwhile.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from turnchain.orchestrator_core.callbacks import ProviderContext
from turnchain.orchestrator_core.contracts import Outcome, Provider, TurnStatus
from turnchain.orchestrator_core.contracts.events import SESSION_LOADED, TURN_STARTING
from turnchain.orchestrator_core.environment import Environment
from turnchain.orchestrator_core.errors import (
    OrchestratorFailedError,
    TurnchainError,
    TurnConflictError,
    text_of,
    to_record,
)
from turnchain.orchestrator_core.messages import messages_from
from turnchain.orchestrator_core.ports import Unit
from turnchain.orchestrator_core.turn_context import TurnContext

DURABLE: Final = False


def run(turn: TurnContext, env: Environment) -> TurnContext:
    """Find the turn's index and history, or decide that it cannot run."""
    head = env.checkpoints.load(turn.session)
    turn_index = head.turn_index + 1 if head else 0
    turn = replace(turn, head=(head,)).found(
        turn_index=turn_index, head_signature=head.signature if head else None
    )
    if not turn.work.lock_waits:  # parked behind a compaction, it started before
        turn = turn.saying(TURN_STARTING, turnIndex=turn_index)
    turn = turn.saying(SESSION_LOADED, turnIndex=turn_index, found=head is not None)
    expected = turn.claim.request.expected_turn_index
    try:
        if expected is not None and expected != turn_index:
            raise TurnConflictError(
                f"expected_turn_index = {expected}, and this is turn {turn_index} of the session: read the session "
                "again and enqueue with what it holds now",
                {"field": "expected_turn_index", "value": expected, "turn_index": turn_index},
            )
        history = turn.claim.request.history
        if isinstance(history, Provider):
            turn = turn.found(history=messages_from(call_provider(turn, env, history, "history")))
    except TurnchainError as error:
        return turn.decided(Outcome(status=TurnStatus.FAILED, error=to_record(error)))
    return turn


def commit(turn: TurnContext, env: Environment, unit: Unit) -> None:
    """The ledger makes the session's row itself when a turn leaves `load`."""


def call_provider(turn: TurnContext, env: Environment, provider: Provider, field: str) -> Any:
    """Run a provider that the request named.

    Raises:
        OrchestratorFailedError: the definition has none of that name, or it raised.
    """
    known = turn.definition.providers
    if provider.name not in known:
        raise OrchestratorFailedError(
            f"{field} names the provider {provider.name!r}, and {turn.definition.name!r} has {sorted(known)}: add it "
            "to the definition's providers",
            {"field": field, "value": provider.name, "known": sorted(known)},
        )
    request = turn.claim.request
    asked = ProviderContext(
        session=turn.session,
        tenant=request.owner.tenant,
        user_id=request.owner.user_id,
        input=request.input,
        arguments=provider.arguments,
    )
    try:
        return env.invoker.call(known[provider.name], asked, watch=turn.watch)
    except Exception as error:
        raise OrchestratorFailedError(
            f"the {field} provider {provider.name!r} raised {type(error).__name__}: {text_of(error)}",
            {"field": field},
        ) from error
