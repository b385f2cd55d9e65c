"""The worker's side of `noop7`: `celery -A benchmarks.contenders.noop7_tasks worker`."""

from __future__ import annotations

import os
from functools import cache
from typing import Any, cast

import redis

from benchmarks.contenders import peers

STAGES = tuple(f"noop.{number}" for number in range(1, 8))


def replies_key(prefix: str) -> str:
    """The list that the last task pushes to."""
    return f"{prefix}replies"


def nothing(turn: str) -> None:
    """Six of the seven."""


def last(turn: str) -> None:
    """Tells the caller."""
    _client().lpush(replies_key(os.environ[peers.PREFIX_VARIABLE]), turn)


@cache
def _client() -> Any:
    """Made by the first task, which is after the fork."""
    return cast("Any", redis.Redis).from_url(os.environ[peers.REDIS_VARIABLE])  # half unknown types


# The caller imports the names above and sends by name; only a worker has the variables.
if peers.REDIS_VARIABLE in os.environ:
    app: Any = peers.worker_app("noop7")
    for name in STAGES[:-1]:
        app.task(nothing, name=name)
    app.task(last, name=STAGES[-1])
