"""What the contenders without Turnchain share: a careful team's Celery settings, and callers who are told."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Generator
from queue import Empty, SimpleQueue

from celery import Celery

from benchmarks.contenders.contender import ANSWER_SECONDS
from benchmarks.fleet import Worker, worker
from benchmarks.stand import Place, Stand

POSTGRES_VARIABLE = "BENCH_POSTGRES_URL"
REDIS_VARIABLE = "BENCH_REDIS_URL"
PREFIX_VARIABLE = "BENCH_KEY_PREFIX"
QUEUE = "bench"


def celery_app(name: str, redis_url: str, key_prefix: str) -> Celery:
    """Late acks, one message a slot, no results, JSON; everything else as Celery has it."""
    app = Celery(name, broker=redis_url, set_as_current=False)
    app.conf.update(
        task_default_queue=QUEUE,
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_prefetch_multiplier=1,
        task_ignore_result=True,
        task_serializer="json",
        accept_content=["json"],
        broker_connection_retry_on_startup=True,
        broker_transport_options={"global_keyprefix": key_prefix},
    )
    return app


def worker_app(name: str) -> Celery:
    """The app of a worker process, which finds its place in the environment."""
    return celery_app(name, os.environ[REDIS_VARIABLE], os.environ[PREFIX_VARIABLE])


def peer_worker(
    app: str, stand: Stand, place: Place, name: str
) -> contextlib.AbstractContextManager[Worker]:
    """A worker of a contender."""
    environ = {
        POSTGRES_VARIABLE: place.database_url,
        REDIS_VARIABLE: place.redis_url,
        PREFIX_VARIABLE: place.key_prefix,
        **place.environ,
    }
    return worker(stand, app, queues=QUEUE, environ=environ, name=name)


class Replies:
    """One thread that is told of ended turns, and wakes whoever waits for each. Nobody polls."""

    def __init__(self) -> None:
        self._waiting: dict[str, SimpleQueue[None]] = {}

    def expect(self, turn: str) -> None:
        """Call it before the turn is sent: the answer may be faster than the caller."""
        self._waiting[turn] = SimpleQueue()

    def wait(self, turn: str) -> None:
        """Return once the turn has ended.

        Raises:
            RuntimeError: it did not in time.
        """
        try:
            self._waiting[turn].get(timeout=ANSWER_SECONDS)
        except Empty:
            raise RuntimeError(f"turn {turn} had no answer within {ANSWER_SECONDS} s") from None
        finally:
            del self._waiting[turn]

    def tell(self, turn: str) -> None:
        """The turn has ended. A second time, or to nobody, does nothing."""
        if waiting := self._waiting.get(turn):
            waiting.put(None)

    @contextlib.contextmanager
    def told_by(self, hear: Callable[[threading.Event], None]) -> Generator[None]:
        """Run `hear` on a thread for the length of the block; it returns once the event is set."""
        over = threading.Event()
        thread = threading.Thread(target=hear, args=(over,), name="bench-replies", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
