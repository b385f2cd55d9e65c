"""Publishers: for workers, and for producers whose web requests must not wait for a frozen broker. [DESIGN 11]"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as NotYet
from datetime import timedelta
from typing import Any

from celery import Celery

from turnchain.orchestrator_core.contracts import Stage, Wake
from turnchain.tasks.base import publish_quietly
from turnchain.tasks.chain import routes

log = logging.getLogger("turnchain.workers")

PUBLISH_DEADLINE = timedelta(seconds=2)

# What a web process may wait for one attempt to reach the broker. `retry=False` alone does not bound a frozen one.
_SOCKET_OPTIONS = {"socket_timeout": 1.0, "socket_connect_timeout": 1.0}


class WorkerPublisher:
    """Publishes from a worker; what fails is logged and left to the sweep."""

    def __init__(self, app: Celery) -> None:
        self._app = app

    def publish(self, wakes: Sequence[Wake]) -> None:
        """One message a wake."""
        for wake in wakes:
            publish_quietly(self._app, wake)


class GuardedPublisher:
    """Publishes on a thread of its own and waits for it at most `PUBLISH_DEADLINE`.

    While an earlier publication still hangs, later ones are not even begun: their turns are `ready` in the ledger, and
    the workers' sweep publishes them.
    """

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._hanging = threading.Event()

    def publish(self, wakes: Sequence[Wake]) -> None:
        """One message a wake, within the deadline."""
        if not wakes:
            return
        if self._hanging.is_set():
            log.warning("not published: the broker hangs", extra={"turns": len(wakes)})
            return
        with self._lock:
            self._executor = self._executor or ThreadPoolExecutor(
                1, thread_name_prefix="turnchain-publish"
            )
            future = self._executor.submit(self._publish, list(wakes))
        try:
            future.result(PUBLISH_DEADLINE.total_seconds())
        except NotYet:
            if not future.done():
                self._hanging.set()
            log.warning("publishing takes longer than its deadline", extra={"turns": len(wakes)})

    def _publish(self, wakes: list[Wake]) -> None:
        try:
            for wake in wakes:
                publish_quietly(self._app, wake)
        finally:
            self._hanging.clear()


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
        broker_transport_options={**options, **(_SOCKET_OPTIONS if is_redis else {})},
        broker_connection_timeout=1.0,
        task_publish_retry=False,
        task_ignore_result=True,
        task_routes=routes({Stage.LOAD: load_queue}),
        result_backend=None,
    )
    return app
