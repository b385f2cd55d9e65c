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

from turnchain.orchestrator_core.contracts import checked_json
from turnchain.orchestrator_core.errors import InvalidInputError

SAMPLE = Path(__file__).with_name("sample.jsonl")


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
        ValueError: names the file that cannot be read, or the line that is no dialogue.
    """
    try:
        return list(_parsed(path))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ValueError(
            f"{str(path)!r} cannot be read: {reason}; give a file with one dialogue a line"
        ) from error


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
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            place = f"{path}, line {number}"
            try:
                dialogue = Dialogue.model_validate(checked_json("it", json.loads(line.decode())))
            except (ValueError, RecursionError, InvalidInputError) as error:
                raise ValueError(f"{place}: not a dialogue: {_reason(error)}") from error
            if dialogue.dialogue_id in seen:
                raise ValueError(f"{place}: dialogue {dialogue.dialogue_id!r} stands there twice")
            seen.add(dialogue.dialogue_id)
            yield dialogue


def _reason(error: Exception) -> str:
    """What is wrong and where, without the text that stands there."""
    if isinstance(error, ValidationError):
        first = error.errors()[0]
        return f"{'.'.join(map(str, first['loc'])) or 'the line'}: {first['msg']}"
    if isinstance(error, UnicodeDecodeError):
        return f"its bytes are no {error.encoding} text"
    return str(error).splitlines()[0]
