"""The messages of a conversation, and how much of them each role sees."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict

from turnchain.orchestrator_core.contracts.base import Record


class Message(Record):
    """One message of a conversation. Further keys (`tool_calls`, `name`, `id` …) are kept as given."""

    model_config = ConfigDict(frozen=True, extra="allow")

    role: str
    content: Any = None


class WindowedHistory(Record):
    """The two slices that a turn works with, taken independently from the full history. [O 0.3 X7, O 6.2]"""

    router: tuple[Message, ...] = ()
    agents: tuple[Message, ...] = ()
