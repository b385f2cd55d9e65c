"""Publishers: for workers, and for producers whose web requests must not wait for a frozen broker. [DESIGN 11]"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from queue import SimpleQueue
from typing import Any

from celery import Celery

from turnchain.orchestrator_core.contracts import Stage, Wake
from turnchain.tasks.base import publish_quietly
from turnchain.tasks.chain import routes

log = logging.getLogger("turnchain.workers")

PUBLISH_DEADLINE = timedelta(seconds=2)

# What a web process may wait for one attempt to reach the broker. `retry=False` alone does not bound a frozen one.
_SOCKET_OPTIONS = {"socket_timeout": 1.0, "socket_connect_timeout": 1.0}
# kombu waits 2 s after a refused connection before it looks again, which is all the time there is.
_CONNECT_OPTIONS = {
    "interval_start": 0.1,
    "interval_step": 0.1,
    "interval_max": 0.2,
    "connect_retries_timeout": 0.3,
}


@dataclass(frozen=True, slots=True)
class _Order:
    wakes: Sequence[Wake]
    done: threading.Event = field(default_factory=threading.Event)


class GuardedPublisher:
    """Publishes on a thread of its own and waits for it at most `deadline`; what fails is left to the sweep.

    While a publication hangs behind its deadline, later ones are not even begun: their turns are `ready` in the ledger,
    and the workers' sweep publishes them. The thread is a daemon, so a broker that hangs does not hold the process's
    end, and it is begun anew in the child of a fork.
    """

    def __init__(self, app: Celery, deadline: timedelta = PUBLISH_DEADLINE) -> None:
        self._app = app
        self._deadline = deadline
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._orders: SimpleQueue[_Order] = SimpleQueue()
        self._late: _Order | None = None

    def publish(self, wakes: Sequence[Wake]) -> None:
        """One message a wake, within the deadline."""
        if not wakes:
            return
        late = self._late
        if late and not late.done.is_set():
            log.warning("not published: the broker hangs", extra={"turns": len(wakes)})
            return
        order = _Order(tuple(wakes))
        self._begin()
        self._orders.put(order)
        if not order.done.wait(self._deadline.total_seconds()):
            self._late = order
            log.warning("publishing takes longer than its deadline", extra={"turns": len(wakes)})

    def _begin(self) -> None:
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(
                    target=self._serve, name="turnchain-publish", daemon=True
                )
                self._thread.start()

    def _serve(self) -> None:
        while True:
            order = self._orders.get()
            try:
                for wake in order.wakes:
                    publish_quietly(self._app, wake)
            finally:
                order.done.set()


def producer_app(broker: Celery | str, key_prefix: str, load_queue: str) -> Celery:
    """A Celery app that publishes our messages to the broker of an app you have, or of a URL; yours stays as it is.

    `key_prefix` is the workers' TURNCHAIN_KEY_PREFIX, used where `broker` is a URL; an app brings its own.
    """
    app = Celery("turnchain-producer", set_as_current=False)
    options: dict[str, Any] = {}
    if isinstance(broker, str):
        app.conf.update(broker_url=broker)
        options = {"global_keyprefix": key_prefix} if broker.startswith("redis") else {}
    else:
        conf = broker.conf
        app.conf.update(
            broker_url=conf.broker_write_url or conf.broker_url, broker_use_ssl=conf.broker_use_ssl
        )
        options = dict(conf.broker_transport_options or {})
    is_redis = str(app.conf.broker_url).startswith("redis")
    app.conf.update(
        broker_transport_options={
            **options,
            **_CONNECT_OPTIONS,
            **(_SOCKET_OPTIONS if is_redis else {}),
        },
        broker_connection_timeout=1.0,
        task_publish_retry=False,
        task_ignore_result=True,
        task_routes=routes({Stage.LOAD: load_queue}),
        result_backend=None,
    )
    return app
