"""Celery's consumer, made to drop what is no message of ours. For our own app: `worker_consumer` in celeryconfig.

Celery's own (5.7.0) logs whole messages, ends the worker on some that it cannot read, and on others loses a slot of a
threads pool for good: rubbish for a chain raises where that pool looks at nothing any more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, cast

from celery.worker.consumer import Consumer as CeleryConsumer

log = logging.getLogger("turnchain.workers")

_UNREADABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What rubbish in the place of a header makes Celery raise."""

_NEVER_OURS = ("eta", "group", "shadow", "stamped_headers", "stamps")
"""Headers that our own code leaves empty; `eta` because waiting is the ledger's. [DESIGN 5, Message]"""


class Consumer(CeleryConsumer):
    """Takes the messages that our own code writes; drops any other once, by its id."""

    def create_task_handler(self, *args: Any, **kwargs: Any) -> Callable[[Any], Any]:
        """As inherited, but only for sound messages."""
        inherited: Any = super()
        handle = inherited.create_task_handler(*args, **kwargs)

        def on_task_received(message: Any) -> Any:
            if not is_sound(message):
                return self._drop(message, "malformed")
            try:
                return handle(message)
            except _UNREADABLE as error:
                return self._drop(message, type(error).__name__)

        return on_task_received

    def on_unknown_message(self, body: Any, message: Any) -> None:
        """Not of Celery's making."""
        self._drop(message, "malformed")

    def on_unknown_task(self, body: Any, message: Any, exc: Any) -> None:
        """No task of that name."""
        self._drop(message, "unknown task")

    def on_invalid_task(self, body: Any, message: Any, exc: Any) -> None:
        """A header of the wrong kind, or content that may not be read."""
        self._drop(message, type(exc).__name__)

    def on_decode_error(self, message: Any, exc: Any) -> None:
        """A body that cannot be read."""
        self._drop(message, type(exc).__name__)

    def _drop(self, message: Any, reason: str) -> None:
        log.warning("message dropped", extra={"task_id": _id_of(message), "reason": reason})
        if not message.acknowledged:
            inherited: Any = self
            message.reject_log_error(log, inherited.connection_errors)


def is_sound(message: Any) -> bool:
    """Whether it is a message of task protocol 2 with positional arguments and, at most, a chain behind it."""
    try:
        args, kwargs, embed = message.payload
        return (
            _are_headers(message.headers)
            and isinstance(args, list)
            and kwargs == {}
            and not any(embed.get(name) for name in ("callbacks", "errbacks", "chord"))
            and all(_is_link(link) for link in embed.get("chain") or ())
        )
    except Exception:  # whatever a hostile body makes the parsers raise
        return False


def _are_headers(headers: dict[str, Any]) -> bool:
    hard, soft = headers.get("timelimit") or (None, None)
    return (
        all(isinstance(headers[name], str) for name in ("task", "id"))
        and all(limit is None or isinstance(limit, int | float) for limit in (hard, soft))
        and isinstance(headers.get("retries") or 0, int)
        and not any(headers.get(name) for name in _NEVER_OURS)
    )


def _is_link(link: Any) -> bool:
    if not isinstance(link, dict):
        return False
    link = cast("dict[str, Any]", link)
    return (
        isinstance(link.get("task"), str)
        and isinstance(link.get("args"), list | tuple)
        and isinstance(link.get("options"), dict)
        and not link.get("kwargs")
    )


def _id_of(message: Any) -> str:
    for place in (message.headers, message.properties):
        if isinstance(place, dict):
            found = cast("dict[str, Any]", place)
            given = found.get("id") or found.get("correlation_id")
            if isinstance(given, str):
                return given[:120]
    return "unknown"
