"""A contender's Celery app whose worker is profiled: `celery -A benchmarks.profiled worker -P prefork`.

The parent and each child leave a file at their end. Only main threads are profiled: in a prefork pool
the parent's reads and acknowledges messages, and a child's runs the tasks.
"""

from __future__ import annotations

import cProfile
import os
import time
from importlib import import_module
from typing import Any

from celery import signals

APP_VARIABLE = "BENCH_PROFILED_APP"
"""The module that has the contender's app."""
DIRECTORY_VARIABLE = "BENCH_PROFILES"


def profile(app_module: str, directory: str) -> Any:
    """The app, with a profiler at both ends of the pool."""
    running: list[cProfile.Profile] = []

    def begin(**_: Any) -> None:
        running[:] = [cProfile.Profile(time.thread_time)]  # waiting costs nothing
        running[0].enable()

    def end(kind: str) -> None:
        for each in running:
            each.disable()
            each.dump_stats(f"{directory}/{kind}-{os.getpid()}.prof")
        running.clear()

    def end_child(**_: Any) -> None:
        end("child")

    def end_parent(**_: Any) -> None:
        end("parent")

    signals.worker_process_init.connect(begin, weak=False)
    signals.worker_process_shutdown.connect(end_child, weak=False)
    signals.worker_ready.connect(begin, weak=False)
    signals.worker_shutdown.connect(end_parent, weak=False)
    return import_module(app_module).app


# Only a worker that is to be profiled has the variables.
if APP_VARIABLE in os.environ:
    app = profile(os.environ[APP_VARIABLE], os.environ[DIRECTORY_VARIABLE])
