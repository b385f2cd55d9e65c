"""From the arguments of a call to a complete request: everything wrong with them is found here, before any write."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal, cast

from turnchain.orchestrator_core.contracts import (
    INPUT_LIMIT,
    JSON,
    Message,
    Owner,
    Provider,
    SessionKey,
    TurnId,
    TurnRequest,
    checked_json,
)
from turnchain.orchestrator_core.definition import NAME_LIMIT
from turnchain.orchestrator_core.errors import InvalidInputError
from turnchain.orchestrator_core.messages import messages_from

MISSING: Any = object()
"""Stands for an argument that was not given, where None is a value or a mistake."""


def build_request(
    orchestrator_name: str,
    input: JSON,
    *,
    turn_id: TurnId,
    session_id: str,
    history: Sequence[Message | Mapping[str, Any]] | Provider | None,
    state: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | Provider | None = None,
    tenant: str | None = None,
    user_id: str | None = None,
    force: bool = False,
    priority: int = 0,
    expected_turn_index: int | None = None,
    idempotency_key: str | None = None,
    deadline: datetime | None = None,
    runner: Literal["engine", "celery"] = "celery",
    limit: int = INPUT_LIMIT,
) -> TurnRequest:
    """The request that these arguments make.

    Raises:
        InvalidInputError: names the argument, its value and what it may be. [O 1.2.15]
    """
    if input is MISSING or input is None:
        raise InvalidInputError(
            "input is missing: give the text or object that this turn is about", {"field": "input"}
        )
    if history is None:
        raise InvalidInputError(
            "history is missing: give the session's earlier messages ([] for none), or Provider(name) to have the "
            "worker fetch them; Turnchain keeps the session's state, not its messages",
            {"field": "history"},
        )
    if isinstance(history, Provider):
        history = _provider("history", history, limit)
    else:
        history = messages_from(checked_json("history", _plain(history), limit))
    return TurnRequest(
        turn_id=turn_id,
        session=SessionKey(
            orchestrator_name=_name("orchestrator_name", orchestrator_name),
            session_id=_name("session_id", session_id),
        ),
        owner=Owner(
            tenant=_optional_name("tenant", tenant), user_id=_optional_name("user_id", user_id)
        ),
        input=checked_json("input", input, limit),
        state=_object("state", {} if state is None else state, limit),
        history=history,
        context=_provider("context", context, limit)
        if isinstance(context, Provider)
        else _literal_context({} if context is None else context, limit),
        force=bool(force),
        priority=_int("priority", priority, -32768, 32767),
        expected_turn_index=None
        if expected_turn_index is None
        else _int("expected_turn_index", expected_turn_index, 0, 2**31 - 1),
        idempotency_key=_optional_name("idempotency_key", idempotency_key),
        deadline=_aware(deadline),
        runner=runner,
    )


def request_hash(request: TurnRequest) -> str:
    """SHA-256 over all that was asked, the turn's id left out: equal for a repetition of the same call.

    The order of an object's keys is no part of what was asked.
    """
    asked = request.model_dump(mode="json", exclude={"turn_id"})
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def _plain(history: Any) -> Any:
    if isinstance(history, Sequence) and not isinstance(history, str | bytes):
        items = cast("Sequence[Any]", history)
        return [item.model_dump() if isinstance(item, Message) else item for item in items]
    raise InvalidInputError(
        f"history is a {type(history).__name__}: give a list of messages, or Provider(name)",
        {"field": "history"},
    )


def _object(field: str, value: Any, limit: int) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidInputError(
            f"{field} is a {type(value).__name__}: give a JSON object", {"field": field}
        )
    return checked_json(field, value, limit)


def _provider(field: str, provider: Provider, limit: int) -> Provider:
    return Provider(
        name=_name(field, provider.name),
        arguments=_object(f"{field}.arguments", provider.arguments, limit),
    )


def _literal_context(value: Any, limit: int) -> dict[str, Any]:
    """A context that came as it is must not be stored as what the worker would take for a provider to call."""
    literal = _object("context", value, limit)
    reserved = Provider.model_fields["kind"].default
    if literal.get("kind") == reserved:
        raise InvalidInputError(
            f"context.kind = {reserved!r} is reserved: rename the key, or pass Provider(name)",
            {"field": "context.kind", "value": reserved},
        )
    return literal


def _name(field: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InvalidInputError(
            f"{field} = {value!r} is not usable: give a text that is not empty", {"field": field}
        )
    if len(value) > NAME_LIMIT:
        raise InvalidInputError(
            f"{field} has {len(value)} characters, and at most {NAME_LIMIT} are taken: use an id, not content",
            {"field": field, "size": len(value)},
        )
    return checked_json(field, value)


def _optional_name(field: str, value: Any) -> str | None:
    return None if value is None else _name(field, value)


def _int(field: str, value: Any, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise InvalidInputError(
            f"{field} = {value!r} is not usable: give an int from {least} to {most}",
            {"field": field, "value": repr(value)},
        )
    return value


def _aware(value: Any) -> datetime | None:
    if value is not None and (not isinstance(value, datetime) or value.tzinfo is None):
        raise InvalidInputError(
            f"deadline = {value!r} is not usable: give an aware datetime, such as datetime.now(UTC) + timedelta(...)",
            {"field": "deadline"},
        )
    # In one zone, since a repetition of the call may come from a host in another one, and must have the same hash.
    return None if value is None else value.astimezone(UTC)
