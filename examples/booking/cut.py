"""The demo's one kill: in the middle of a turn, for certain, and followed until somebody else has gone on with it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol

import psycopg
from psycopg.rows import class_row

LOOK_SECONDS = 0.02
FOLLOW_SECONDS = 0.2
ANSWER_SECONDS = 1.0
"""How long the database is given to be done with what a frozen process had asked of it."""
CHOOSY_SECONDS = 5.0
"""How long a turn is waited for that has an iteration to keep; after that any will do."""

OWNED = """
SELECT owned.*, EXISTS (
    SELECT FROM booking_runs AS begun
    WHERE owned.stage = 'dispatch' AND begun.run_id = owned.run_id
        AND begun.iteration = owned.kept AND begun.process_id = owned.process_id
) AS is_inside
FROM (
    SELECT turn.turn_id::text, turn.session_id, turn.run_id, turn.stage,
           substring(turn.lease_owner FROM ':([0-9]+)/')::integer AS process_id,
           (SELECT count(*) FROM turnchain_snapshot_iterations AS saved WHERE saved.run_id = turn.run_id) AS kept
    FROM turnchain_turns AS turn WHERE turn.in_flight AND turn.lease_owner IS NOT NULL
) AS owned
ORDER BY kept DESC, turn_id
"""
"""Turns that a process owns; inside is one with an iteration that this process has begun and not saved."""

UNANSWERED = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND state = 'active' AND query_start < %s AND pid <> pg_backend_pid()
"""

TAKEN_OVER = """
SELECT DISTINCT ON (begun.run_id)
       begun.run_id, begun.process_id, begun.iteration AS kept,
       extract(epoch FROM begun.began_at - %(killed_at)s)::float AS seconds,
       (SELECT count(*) - count(DISTINCT every.iteration) FROM booking_runs AS every
        WHERE every.run_id = begun.run_id) AS rerun
FROM booking_runs AS begun
WHERE begun.run_id = ANY (%(run_ids)s) AND begun.began_at > %(killed_at)s
ORDER BY begun.run_id, begun.began_at
"""
"""The first iteration of each run after the kill."""


class Victim(Protocol):
    """A worker that can be killed."""

    @property
    def name(self) -> str: ...

    @property
    def pid(self) -> int | None:
        """None while it does not run."""
        ...

    def children(self) -> Sequence[int]:
        """Process ids of the pool's children."""
        ...

    def kill(self) -> None:
        """SIGKILL all of them, and wait until they are gone."""
        ...


@dataclass(frozen=True, slots=True)
class OwnedTurn:
    """A turn that a process runs."""

    turn_id: str
    session_id: str
    run_id: str
    stage: str
    process_id: int
    kept: int
    """Iterations that are saved."""
    is_inside: bool
    """Whether the process is in the middle of one that is not."""


@dataclass(frozen=True, slots=True)
class Takeover:
    """Where a cut turn went on."""

    turn: OwnedTurn
    worker: str
    process_id: int
    kept: int
    """Iterations that did not begin again."""
    seconds: float
    """From the kill until an iteration began again."""
    rerun: int
    """Iterations that began twice."""


@dataclass(slots=True)
class Cut:
    """Kills one worker inside a turn, and tells what became of the turns that it had."""

    url: str
    workers: Sequence[Victim]
    on_kill: Callable[[Cut], None]
    on_takeover: Callable[[Cut, Takeover], None]
    worker: str = ""
    """The killed worker's name and process id."""
    process_id: int = 0
    turns: list[OwnedTurn] = field(default_factory=list[OwnedTurn])
    """Those that it was inside; none before the kill."""
    others: list[OwnedTurn] = field(default_factory=list[OwnedTurn])
    """Turns that it owned otherwise: between two iterations, or in another stage."""
    takeovers: list[Takeover] = field(default_factory=list[Takeover])
    _killed_at: Any = None

    async def perform(self) -> None:
        """Kill when there is somebody to kill, and follow the turns until all have gone on."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            await self._kill(connection)
            while len(self.takeovers) < len(self.turns):
                await asyncio.sleep(FOLLOW_SECONDS)
                self._follow(connection)

    async def _kill(self, connection: psycopg.Connection[Any]) -> None:
        now = asyncio.get_running_loop().time
        choosy_until = now() + CHOOSY_SECONDS
        while not self.turns:
            await asyncio.sleep(LOOK_SECONDS)
            least = 1 if now() < choosy_until else 0
            chosen = next(
                (each for each in _owned(connection) if each.is_inside and each.kept >= least), None
            )
            victim = chosen and self._worker_of(chosen.process_id)
            if victim:
                await self._kill_if_inside(connection, victim, least)

    async def _kill_if_inside(
        self, connection: psycopg.Connection[Any], victim: Victim, least: int
    ) -> None:
        """Frozen, it cannot finish the iteration between our look and the kill."""
        with _frozen(victim) as pids:
            await _answered(connection)
            owned = [each for each in _owned(connection) if each.process_id in pids]
            cut = [each for each in owned if each.is_inside]
            if not any(each.kept >= least for each in cut):
                return
            self._killed_at = _now(connection)
            self.worker, self.process_id = victim.name, pids[0]
            self.turns, self.others = cut, [each for each in owned if not each.is_inside]
            self.on_kill(self)
            victim.kill()

    def _follow(self, connection: psycopg.Connection[Any]) -> None:
        known = {each.turn.turn_id for each in self.takeovers}
        open_turns = {each.run_id: each for each in self.turns if each.turn_id not in known}
        parameters = {"killed_at": self._killed_at, "run_ids": [*open_turns]}
        for run_id, process_id, kept, seconds, rerun in connection.execute(TAKEN_OVER, parameters):
            worker = self._worker_of(process_id)
            name = worker.name if worker else "a worker"
            takeover = Takeover(open_turns[run_id], name, process_id, kept, seconds, rerun)
            self.takeovers.append(takeover)
            self.on_takeover(self, takeover)

    def _worker_of(self, process_id: int) -> Victim | None:
        return next((each for each in self.workers if process_id in _pids(each)), None)


def _owned(connection: psycopg.Connection[Any]) -> list[OwnedTurn]:
    with connection.cursor(row_factory=class_row(OwnedTurn)) as cursor:
        return cursor.execute(OWNED).fetchall()


async def _answered(connection: psycopg.Connection[Any]) -> None:
    """What was sent before the freeze may still be committed: wait until the server is done with it."""
    asked = _now(connection)
    now = asyncio.get_running_loop().time
    deadline = now() + ANSWER_SECONDS
    await asyncio.sleep(LOOK_SECONDS)
    while connection.execute(UNANSWERED, (asked,)).fetchone() != (0,) and now() < deadline:
        await asyncio.sleep(LOOK_SECONDS)


def _now(connection: psycopg.Connection[Any]) -> Any:
    row = connection.execute("SELECT clock_timestamp()").fetchone()
    return row and row[0]


@contextmanager
def _frozen(victim: Victim) -> Generator[list[int]]:
    """Its processes, stopped where they are until the end of the block."""
    pids = _pids(victim)
    try:
        _signal(pids, signal.SIGSTOP)
        yield pids
    finally:
        _signal(pids, signal.SIGCONT)  # means nothing to what was killed


def _signal(pids: Sequence[int], signum: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signum)


def _pids(victim: Victim) -> list[int]:
    own = victim.pid
    return [] if own is None else [own, *victim.children()]
