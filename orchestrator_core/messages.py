"""From what a caller or a provider calls a history to messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from pydantic import ValidationError

from turnchain.orchestrator_core.contracts import Message, checked_json
from turnchain.orchestrator_core.errors import InvalidInputError


def messages_from(value: Any) -> tuple[Message, ...]:
    """Messages, from objects with a `role`.

    Raises:
        InvalidInputError: names the message that is none.
    """
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        raise InvalidInputError(
            f"history is a {type(value).__name__}: give a list of messages", {"field": "history"}
        )
    return tuple(_message(index, item) for index, item in enumerate(cast("Iterable[Any]", value)))


def _message(index: int, item: Any) -> Message:
    if isinstance(item, Message):
        item = item.model_dump()
    copy = checked_json(f"history[{index}]", item)
    try:
        return Message.model_validate(copy)
    except ValidationError as error:
        raise InvalidInputError(
            f"history[{index}] is not a message: give an object with a text `role` and a `content`",
            {"field": f"history[{index}]"},
        ) from error
