"""Plays dialogues through real workers, many sessions at once, and may kill what runs them meanwhile."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from turnchain import SessionClient, TurnTimeout
from turnchain.examples.booking import world
from turnchain.examples.booking.dialogues import Dialogue
from turnchain.examples.booking.fleet import Worker

RESULT_SECONDS = 300.0


def prepare(url: str, dialogues: Sequence[Dialogue]) -> None:
    """Make the example's own tables, and write down what every session must have in the end."""
    with psycopg.connect(url) as connection:
        connection.execute(world.SCHEMA)
        with connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO booking_expected (session_id, state) VALUES (%s, %s)",
                [
                    (dialogue.dialogue_id, Jsonb(dialogue.expected_state()))
                    for dialogue in dialogues
                ],
            )


async def play(
    client: SessionClient, dialogues: Sequence[Dialogue], sessions: int, told: Callable[[int], None]
) -> list[float]:
    """Play every dialogue to its end, `sessions` at a time; the turns' durations in seconds.

    Every second dialogue says all at once, and relies on the session's order; the others wait for each answer.
    """
    gate = asyncio.Semaphore(sessions)
    durations: list[float] = []

    async def say(dialogue: Dialogue, index: int) -> Any:
        turn = dialogue.turns[index]
        message = turn.model_dump(include={"user", "frames", "calls"})
        return await client.aenqueue(
            "booking", message, session_id=dialogue.dialogue_id, history=dialogue.history(index)
        )

    async def answered(said: Any, began: float) -> None:
        with suppress(TurnTimeout):
            await said.aresult(RESULT_SECONDS)
        durations.append(asyncio.get_running_loop().time() - began)
        told(len(durations))

    async def converse(number: int, dialogue: Dialogue) -> None:
        async with gate:
            now = asyncio.get_running_loop().time
            if number % 2:
                began = now()
                said = [await say(dialogue, index) for index in range(len(dialogue.turns))]
                await asyncio.gather(*(answered(each, began) for each in said))
                return
            for index in range(len(dialogue.turns)):
                began = now()
                await answered(await say(dialogue, index), began)

    await asyncio.gather(*(converse(number, dialogue) for number, dialogue in enumerate(dialogues)))
    return durations


@dataclass(slots=True)
class Killer:
    """SIGKILLs a child every 2 s and a whole worker every 5 s, which is then started again as an init system would."""

    workers: Sequence[Worker]
    child_seconds: float = 2.0
    worker_seconds: float = 5.0
    random: random.Random = field(default_factory=lambda: random.Random(7))
    killed: Counter[str] = field(default_factory=Counter[str])
    _stopped: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list[threading.Thread])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Begin."""
        for seconds, act in (
            (self.child_seconds, self._kill_child),
            (self.worker_seconds, self._kill_worker),
        ):
            thread = threading.Thread(target=self._every, args=(seconds, act), daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """End, with every worker running."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _every(self, seconds: float, act: Callable[[], None]) -> None:
        while not self._stopped.wait(seconds):
            act()

    def _kill_child(self) -> None:
        with self._lock:
            children = [pid for worker in self.workers for pid in worker.children()]
            if children:
                with suppress(ProcessLookupError):
                    os.kill(self.random.choice(children), signal.SIGKILL)
                    self.killed["children"] += 1

    def _kill_worker(self) -> None:
        with self._lock:
            worker = self.random.choice(self.workers)
            worker.kill()
            self.killed["workers"] += 1
            worker.start()
