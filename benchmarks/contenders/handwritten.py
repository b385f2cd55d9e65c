"""One Celery task, as a good engineer writes it without Turnchain: load the session, do the step, save, reply.

The commit that ends the turn notifies with the answer, and the caller's one thread listens.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from uuid import uuid4

import psycopg

from benchmarks.contenders import peers
from benchmarks.contenders.contender import Running
from benchmarks.contenders.handwritten_tasks import CHANNEL, SCHEMA, TURN
from benchmarks.fleet import Worker
from benchmarks.stand import Place, Stand
from benchmarks.work import Shape


@dataclass(frozen=True, slots=True)
class Handwritten:
    """One task, one commit an iteration."""

    name: str = "handwritten"
    shapes: Sequence[Shape] = (Shape.SINGLE, Shape.FIVE)
    growing: Sequence[Shape] = (Shape.SINGLE,)
    absence: str | None = None

    @contextlib.contextmanager
    def running(self, stand: Stand, place: Place) -> Generator[Running]:
        """Tables, worker and caller."""
        replies = peers.Replies()
        with (
            contextlib.closing(
                peers.celery_app("handwritten-caller", place.redis_url, place.key_prefix)
            ) as app,
            psycopg.connect(place.database_url, autocommit=True) as listener,
        ):
            listener.execute(SCHEMA)
            listener.execute(f"LISTEN {CHANNEL}")

            def hear(over: threading.Event) -> None:
                while not over.is_set():
                    for notice in listener.notifies(timeout=0.5):
                        replies.tell(notice.payload.partition(" ")[0])

            def play(session: str, shape: Shape) -> None:
                turn = str(uuid4())
                replies.expect(turn)
                app.send_task(TURN, args=(turn, session, "next", shape.iterations))
                replies.wait(turn)

            with self.worker(stand, place, self.name) as started, replies.told_by(hear):
                yield Running(play, started)

    def worker(
        self, stand: Stand, place: Place, name: str
    ) -> contextlib.AbstractContextManager[Worker]:
        """Any number of them read the same queue."""
        return peers.peer_worker("benchmarks.contenders.handwritten_tasks", stand, place, name)
