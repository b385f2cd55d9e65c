"""Turnchain as shipped: the caller enqueues, and hears by NOTIFY that the turn has settled."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import psutil
import psycopg

import turnchain
from benchmarks import bots
from benchmarks.contenders.contender import ANSWER_SECONDS, Running
from benchmarks.fleet import Worker, wait_for, worker
from benchmarks.stand import Place, Stand
from benchmarks.work import Shape
from turnchain import SessionClient
from turnchain.stores.postgres import schema
from turnchain.workers.settings import Settings

QUEUES = "turns,control,maintenance"
SLOTS = """
SELECT coalesce(sum(slots), 0) FROM turnchain_processes
WHERE substring(process_id FROM ':(\\d+)$') = ANY (%s)
"""
UNFINISHED = "SELECT count(*) FROM turnchain_turns WHERE stage <> 'done'"
_SETTLE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Turnchain:
    """One chain mode, which is also the contender's name."""

    name: str
    shapes: Sequence[Shape] = tuple(Shape)
    growing: Sequence[Shape] = (Shape.SINGLE, Shape.KEPT)

    @property
    def absence(self) -> str | None:
        """Inline has not been there always."""
        if self.name == "staged" or "chain_mode" in Settings.model_fields:
            return None
        return f"{self.name} is left out: this checkout has no TURNCHAIN_CHAIN_MODE"

    @contextlib.contextmanager
    def running(self, stand: Stand, place: Place) -> Generator[Running]:
        """The schema, a worker whose slots are in the ledger, and a client."""
        with psycopg.connect(place.database_url) as connection:
            connection.execute(schema().encode())
        with self.worker(stand, place, self.name) as started, client(place) as caller:

            def play(session: str, shape: Shape) -> None:
                turn = caller.enqueue(
                    bots.NAMES[shape], {"says": "next"}, session_id=session, history=[]
                )
                result = turn.result(ANSWER_SECONDS)
                if not result.ok:
                    raise RuntimeError(f"turn {turn.turn_id} ended {result.status}: {result.error}")

            def settle() -> None:
                with psycopg.connect(place.database_url, autocommit=True) as connection:
                    wait_for(
                        lambda: connection.execute(UNFINISHED).fetchone() == (0,),
                        _SETTLE_SECONDS,
                        "the last turns' compact",
                    )

            yield Running(play, started, settle)

    @contextlib.contextmanager
    def worker(self, stand: Stand, place: Place, name: str) -> Generator[Worker]:
        """A worker that counts among the slots."""
        environ = {
            "TURNCHAIN_POSTGRES_URL": place.database_url,
            "TURNCHAIN_BROKER_URL": place.redis_url,
            "TURNCHAIN_KEY_PREFIX": place.key_prefix,
            "TURNCHAIN_ORCHESTRATORS": "benchmarks.bots",
            "TURNCHAIN_CHAIN_MODE": self.name,
            **place.environ,
        }
        with worker(
            stand, "turnchain.workers.app", queues=QUEUES, environ=environ, name=name
        ) as started:
            wait_for(
                lambda: _slots(place, started) >= stand.concurrency, 10, f"the slots of {name}"
            )
            yield started


@contextlib.contextmanager
def client(place: Place) -> Generator[SessionClient]:
    """A producer's client. A process keeps its one client to its end, and a benchmark has many."""
    made = turnchain.connect(
        place.database_url,
        broker=place.redis_url,
        key_prefix=place.key_prefix,
        orchestrators=[*bots.NAMES.values()],
    )
    try:
        yield made
    finally:
        inside: Any = made
        inside._ledger._connections.close()
        inside._publisher._app.close()


def _slots(place: Place, started: Worker) -> int:
    pids = [started.pid, *(each.pid for each in psutil.Process(started.pid).children())]
    with psycopg.connect(place.database_url) as connection:
        row = connection.execute(SLOTS, ([str(pid) for pid in pids],)).fetchone()
    return int(row[0]) if row else 0
