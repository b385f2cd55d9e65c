"""Plays dialogues through real workers, many sessions at once."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from turnchain import SessionClient, TurnTimeout
from turnchain.examples.booking import world
from turnchain.examples.booking.bot import SERVICES, family
from turnchain.examples.booking.dialogues import Dialogue, read

RESULT_SECONDS = 300.0


@dataclass(frozen=True, slots=True)
class Answered:
    """A turn that was played."""

    session_id: str
    seconds: float
    """From its enqueueing to its answer."""


def playable(path: Path, limit: int | None = None) -> list[Dialogue]:
    """The first dialogues of a file, without those in which nothing is said.

    Raises:
        ValueError: it holds none, or one speaks of a service that the bot does not serve.
    """
    dialogues = [each for each in read(path)[:limit] if each.turns]
    if not dialogues:
        raise ValueError(f"{path} holds no dialogue with a turn to play")
    named = {
        service
        for each in dialogues
        for service in (
            *each.services,
            *(frame.service for turn in each.turns for frame in turn.frames),
        )
    }
    unknown = sorted(service for service in named if family(service) not in SERVICES)
    if unknown:
        raise ValueError(
            f"{path}: services {unknown} are not served; served are {', '.join(SERVICES)}"
        )
    return dialogues


def prepare(url: str, dialogues: Sequence[Dialogue]) -> None:
    """Make the example's own tables, and write down what every session must have in the end."""
    with psycopg.connect(url) as connection:
        connection.execute(world.SCHEMA)
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO booking_expected (session_id, turns, state) VALUES (%s, %s, %s)",
                [
                    (each.dialogue_id, len(each.turns), Jsonb(each.expected_state()))
                    for each in dialogues
                ],
            )


def leave_out(url: str, session_ids: Sequence[str]) -> None:
    """Expect nothing of dialogues that were not begun."""
    with psycopg.connect(url) as connection:
        connection.execute(
            "DELETE FROM booking_expected WHERE session_id = ANY (%s)", ([*session_ids],)
        )


async def play(
    client: SessionClient,
    dialogues: Sequence[Dialogue],
    sessions: int,
    told: Callable[[int], None],
    begins: Callable[[int], bool] = lambda _: True,
) -> list[Answered]:
    """Play dialogues to their ends, `sessions` at a time, and return their turns in the order of the answers.

    Every second dialogue says all at once, and relies on the session's order; the others wait for each answer. `told`
    hears how many turns are answered, `begins` says of a dialogue's place whether it is to be played.
    """
    gate = asyncio.Semaphore(sessions)
    answers: list[Answered] = []

    async def say(dialogue: Dialogue, index: int) -> Any:
        turn = dialogue.turns[index]
        message = turn.model_dump(include={"user", "frames", "calls"})
        return await client.aenqueue(
            "booking", message, session_id=dialogue.dialogue_id, history=dialogue.history(index)
        )

    async def answered(dialogue: Dialogue, said: Any, began: float) -> None:
        with suppress(TurnTimeout):
            await said.aresult(RESULT_SECONDS)
        seconds = asyncio.get_running_loop().time() - began
        answers.append(Answered(dialogue.dialogue_id, seconds))
        told(len(answers))

    async def converse(number: int, dialogue: Dialogue) -> None:
        async with gate:
            if not begins(number):
                return
            now = asyncio.get_running_loop().time
            if number % 2:
                began = now()
                said = [await say(dialogue, index) for index in range(len(dialogue.turns))]
                await asyncio.gather(*(answered(dialogue, each, began) for each in said))
                return
            for index in range(len(dialogue.turns)):
                began = now()
                await answered(dialogue, await say(dialogue, index), began)

    await asyncio.gather(*(converse(number, dialogue) for number, dialogue in enumerate(dialogues)))
    return answers


def median_and_p95(answers: Sequence[Answered]) -> tuple[float, float]:
    """Of the seconds; of one answer both are that one's."""
    seconds = [each.seconds for each in answers]
    cuts = statistics.quantiles(seconds, n=20) if len(seconds) > 1 else seconds * 19
    return cuts[9], cuts[18]
