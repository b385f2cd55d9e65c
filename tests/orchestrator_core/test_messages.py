"""From what somebody calls a history to messages."""

from __future__ import annotations

from typing import Any

import pytest

from turnchain.orchestrator_core.contracts import Message
from turnchain.orchestrator_core.errors import InvalidInputError
from turnchain.orchestrator_core.messages import messages_from


def test_objects_with_a_role_are_messages() -> None:
    given = [{"role": "user", "content": "hi", "id": "m1"}, Message(role="assistant", content=None)]

    messages = messages_from(given)

    assert [message.model_dump() for message in messages] == [
        {"role": "user", "content": "hi", "id": "m1"},
        {"role": "assistant", "content": None},
    ]


def test_a_generator_will_do() -> None:
    assert len(messages_from({"role": "user"} for _ in range(3))) == 3


def test_messages_are_copies() -> None:
    content = [{"type": "text"}]

    (message,) = messages_from([{"role": "user", "content": content}])
    content[0]["type"] = "changed"

    assert message.content == [{"type": "text"}]


@pytest.mark.parametrize("value", ["hi", b"hi", 7, None, object()])
def test_what_is_no_list_is_refused(value: Any) -> None:
    with pytest.raises(InvalidInputError, match="history is a "):
        messages_from(value)


@pytest.mark.parametrize(
    "bad", ["hi", 7, None, {}, {"content": "no role"}, {"role": 7}, {"role": "user", "at": {1}}]
)
def test_the_message_that_is_none_is_named(bad: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"history\[1\]"):
        messages_from([{"role": "user"}, bad])
