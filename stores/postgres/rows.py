"""Rows of our tables as contracts, and contracts as parameters of our statements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from turnchain.orchestrator_core.contracts import (
    Claim,
    Message,
    Outcome,
    Owner,
    Provider,
    SessionKey,
    Stage,
    TurnId,
    TurnRecord,
    TurnRequest,
    TurnWork,
    Wake,
    to_json,
)
from turnchain.orchestrator_core.errors import InvalidInputError

Row = Mapping[str, Any]

_BIGINT_END: Final = 2**63


def is_turn_id(turn_id: str) -> bool:
    """Whether the text can be a turn's id."""
    try:
        return str(UUID(turn_id)) == turn_id
    except (ValueError, AttributeError, TypeError):
        return False


def is_wake(wake: Wake) -> bool:
    """Whether a turn can stand so at all: a broker message may say anything."""
    return is_turn_id(wake.turn_id) and 0 <= wake.fence < _BIGINT_END


def turn(row: Row) -> TurnRecord:
    """A row of `turnchain_turns`, as read by any driver or from JSON."""
    return TurnRecord.model_validate(
        {
            **row,
            "turn_id": str(row["turn_id"]),
            "session": _session(row),
            "owner": Owner(tenant=row["tenant"], user_id=row["user_id"]),
            "deadline": row["deadline_at"],
        }
    )


def request(row: Row) -> TurnRequest:
    """A turn's row joined with its request. What was deleted reads as empty."""
    record = turn(row)
    # Built part by part: a literal context may look just like a provider.
    history = row["history_provider"]
    context = row["context_provider"]
    return TurnRequest.model_construct(
        turn_id=record.turn_id,
        session=record.session,
        owner=record.owner,
        input=row["input"],
        state=row["state_patch"],
        history=Provider.model_validate(history)
        if history
        else tuple(Message.model_validate(message) for message in row["history"] or ()),
        context=Provider.model_validate(context) if context else row["context"] or {},
        force=row["force"],
        priority=record.priority,
        expected_turn_index=row["expected_turn_index"],
        idempotency_key=row["idempotency_key"],
        deadline=record.deadline,
        runner=record.runner,
        run_id=None if record.run_id == record.turn_id else record.run_id,
    )


def request_params(request: TurnRequest, request_hash: str) -> dict[str, Any]:
    """The parameters of `look` and `accept`, JSON as text."""
    if not is_turn_id(request.turn_id):
        raise InvalidInputError(
            f"turn_id = {request.turn_id!r} is not a UUID in its usual 36 characters: mint one",
            {"field": "turn_id"},
        )
    history, context = request.history, request.context
    literal = not isinstance(history, Provider)
    return {
        "turn_id": request.turn_id,
        **session_params(request.session),
        "tenant": request.owner.tenant,
        "user_id": request.owner.user_id,
        "run_id": request.run_id or request.turn_id,
        "runner": request.runner,
        "priority": request.priority,
        "deadline": request.deadline,
        "idempotency_key": request.idempotency_key,
        "request_hash": request_hash,
        "input": to_json(request.input),
        "state": to_json(request.state),
        "history": to_json([one.model_dump(mode="json") for one in history]) if literal else None,
        "history_provider": None if literal else history.model_dump_json(),
        "context": None if isinstance(context, Provider) else to_json(context),
        "context_provider": context.model_dump_json() if isinstance(context, Provider) else None,
        "force": request.force,
        "expected_turn_index": request.expected_turn_index,
    }


def session_params(session: SessionKey) -> dict[str, Any]:
    """The two columns that name a session."""
    return {"orchestrator_name": session.orchestrator_name, "session_id": session.session_id}


def claim(row: Row, lease_owner: str) -> Claim:
    """The row that `claim` returns."""
    work = row["work"]
    return Claim.model_construct(
        turn=turn(row),
        request=request(row),
        work=TurnWork.model_validate(work) if work else TurnWork(),
        lease_owner=lease_owner,
        late=row["late"],
    )


def claim_params(claim: Claim) -> dict[str, Any]:
    """What every write of a claim is guarded by."""
    return {**wake_params(claim.wake), "lease_owner": claim.lease_owner}


def wake(row: Row) -> Wake:
    """A turn, its stage and its fence."""
    return Wake(turn_id=TurnId(str(row["turn_id"])), stage=Stage(row["stage"]), fence=row["fence"])


def wake_params(wake: Wake) -> dict[str, Any]:
    """A turn, its stage and its fence."""
    return {"turn_id": wake.turn_id, "stage": wake.stage.value, "fence": wake.fence}


def outcome(row: Row) -> Outcome:
    """The outcome column."""
    return Outcome.model_validate(row["outcome"])


def outcome_json(outcome: Outcome) -> str:
    """An outcome without the state, which is the checkpoint's business."""
    return outcome.model_dump_json(exclude={"state"})


def _session(row: Row) -> SessionKey:
    return SessionKey(orchestrator_name=row["orchestrator_name"], session_id=row["session_id"])
