"""A chain of seven Celery tasks that do nothing: the floor of Turnchain's shape. It touches no database.

The last task pushes the turn's id to a Redis list, and the caller's one thread pops it there.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from uuid import uuid4

from celery import chain

from benchmarks.contenders import peers
from benchmarks.contenders.contender import Running
from benchmarks.contenders.noop7_tasks import STAGES, replies_key
from benchmarks.fleet import Worker
from benchmarks.stand import Place, Stand, redis_client
from benchmarks.work import Shape


@dataclass(frozen=True, slots=True)
class Noop7:
    """Seven hops."""

    name: str = "noop7"
    shapes: Sequence[Shape] = (Shape.SINGLE,)
    growing: Sequence[Shape] = ()
    absence: str | None = None

    @contextlib.contextmanager
    def running(self, stand: Stand, place: Place) -> Generator[Running]:
        """Worker and caller."""
        replies = peers.Replies()
        with (
            contextlib.closing(
                peers.celery_app("noop7-caller", place.redis_url, place.key_prefix)
            ) as app,
            redis_client(place.redis_url) as client,
            self.worker(stand, place, self.name) as started,
        ):

            def hear(over: threading.Event) -> None:
                while not over.is_set():
                    if popped := client.blpop([replies_key(place.key_prefix)], timeout=0.5):
                        replies.tell(popped[1].decode())

            def play(session: str, shape: Shape) -> None:
                turn = str(uuid4())
                replies.expect(turn)
                links = [app.signature(name, args=(turn,), immutable=True) for name in STAGES]
                chain(*links).apply_async()
                replies.wait(turn)

            with replies.told_by(hear):
                yield Running(play, started)

    def worker(
        self, stand: Stand, place: Place, name: str
    ) -> contextlib.AbstractContextManager[Worker]:
        """Any number of them read the same queue."""
        return peers.peer_worker("benchmarks.contenders.noop7_tasks", stand, place, name)
