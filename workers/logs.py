"""JSON lines with ids, and nothing that a person wrote. [DESIGN 1.6]"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, Final, cast

from turnchain.orchestrator_core.errors import scrub

FIELDS: Final = (
    "turn_id", "stage", "fence", "attempt", "task_id", "reason", "code", "error", "process_id", "turns", "queue",
)  # fmt: skip

_LONGEST: Final = 500

# Celery and kombu log whole messages at these places; the first words say what happened, the rest is content.
_DUMPS: Final = (
    "Received and deleted unknown message",
    "Received unregistered task",
    "Received invalid task message",
    "Can't decode message body",
    "Couldn't convert ETA",
    "Could not restore message",
    "UNABLE TO RESTORE",
)

# Two lines at INFO for every stage that comes and goes: `turnchain turns` and Flower say it better, and they cost a
# tenth of the throughput.
_EVERY_TASK: Final = ("celery.app.trace", "celery.worker.strategy")

# What our stages raise says ids and a code.
_OURS: Final = "StageFailed("


class IdsOnly(logging.Filter):
    """Cuts the message dumps of Celery and kombu down to what happened and to which task id."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Always true; the record is changed where it holds a dump."""
        template = str(record.msg)
        if template.lstrip().startswith(_DUMPS):
            record.task_id = _task_id(record.args)
            record.msg = next(dump for dump in _DUMPS if template.lstrip().startswith(dump))
            record.args = ()
            record.exc_info = None
        elif isinstance(record.args, dict) and "exc" in record.args:
            # How Celery logs a failed task: an exception's text may quote what its message held.
            raised = str(record.args["exc"])
            kind = raised if raised.startswith(_OURS) else raised.partition("(")[0]
            record.args = {**record.args, "exc": kind}
        return True


class JsonLines(logging.Formatter):
    """One JSON object a line: message and our ids; of an exception where it was raised, not its text."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        line: dict[str, Any] = {
            "ts": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": scrub(_message_of(record))[:_LONGEST],
        }
        line |= {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = record.exc_info[0].__name__
            frames = traceback.extract_tb(record.exc_info[2])
            line["raised_at"] = [
                f"{frame.filename.rsplit('/', 1)[-1]}:{frame.lineno}" for frame in frames[-5:]
            ]
        # Somebody's logger may use our fields' names for objects: their kind has to do.
        return json.dumps(line, ensure_ascii=False, default=lambda value: type(value).__name__)


def set_up(level: str) -> None:
    """Send every logger to standard error, in our form. Running it twice is safe."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    handler.addFilter(IdsOnly())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    if level != "DEBUG":
        for name in _EVERY_TASK:
            logging.getLogger(name).setLevel(logging.WARNING)


def _message_of(record: logging.LogRecord) -> str:
    """The message; where it cannot be made, its template. Logging's own complaint would print the arguments."""
    try:
        return record.getMessage()
    except Exception:
        return str(record.msg)


def _task_id(arguments: Any) -> str:
    for argument in cast("tuple[Any, ...]", arguments) if isinstance(arguments, tuple) else ():
        if isinstance(argument, dict) and "id" in argument:
            return str(cast("dict[str, Any]", argument)["id"])[:120]
    return "unknown"
