"""Dialogues as files hold them: one JSON object a line.

`{"dialogue_id", "services", "turns": [{"user", "frames", "calls", "system"}]}`, where a frame is what the user wants
after the message (`{"service", "intent", "requested", "slots"}`) and a call is what the system asks of a service before
it answers (`{"service", "method", "parameters", "results"}`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError


class Frame(BaseModel):
    """What the user wants of one service after a message."""

    model_config = ConfigDict(frozen=True)

    service: str
    intent: str
    slots: dict[str, list[str]] = {}


class Call(BaseModel):
    """One service call, with the results that the recorded world gave."""

    model_config = ConfigDict(frozen=True)

    service: str
    method: str
    parameters: dict[str, str] = {}
    results: list[dict[str, Any]] = []


class DialogueTurn(BaseModel):
    """One message of the user and what follows from it."""

    model_config = ConfigDict(frozen=True)

    user: str
    frames: list[Frame]
    calls: list[Call] = []
    system: str | None = None


class Dialogue(BaseModel):
    """One conversation."""

    model_config = ConfigDict(frozen=True)

    dialogue_id: str
    services: list[str]
    turns: list[DialogueTurn]

    def history(self, index: int) -> list[dict[str, str]]:
        """The messages before turn `index`."""
        spoken = [
            ("user", turn.user) if who else ("assistant", turn.system)
            for turn in self.turns[:index]
            for who in (1, 0)
        ]
        return [{"role": role, "content": text} for role, text in spoken if text is not None]

    def expected_state(self) -> dict[str, dict[str, list[str]]]:
        """The slots of all frames, service by service, later values over earlier ones."""
        state: dict[str, dict[str, list[str]]] = {}
        for turn in self.turns:
            for frame in turn.frames:
                state[frame.service] = {**state.get(frame.service, {}), **frame.slots}
        return state


def read(path: Path) -> list[Dialogue]:
    """All dialogues of a file.

    Raises:
        ValueError: names the line that is no dialogue.
        OSError: the file cannot be read.
    """
    return list(_parsed(path))


def repeated(dialogues: list[Dialogue], times: int) -> list[Dialogue]:
    """Every dialogue so many times, each time as a session of its own."""
    if times == 1:
        return dialogues
    return [
        each.model_copy(update={"dialogue_id": f"{each.dialogue_id}.{number}"})
        for number in range(times)
        for each in dialogues
    ]


def _parsed(path: Path) -> Iterator[Dialogue]:
    seen: set[str] = set()
    with path.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                dialogue = Dialogue.model_validate(json.loads(line))
            except (json.JSONDecodeError, ValidationError) as error:
                raise ValueError(
                    f"{path}, line {number}: not a dialogue: {str(error).splitlines()[0]}"
                ) from error
            if dialogue.dialogue_id in seen:
                raise ValueError(
                    f"{path}, line {number}: dialogue {dialogue.dialogue_id!r} stands there twice"
                )
            seen.add(dialogue.dialogue_id)
            yield dialogue
