"""Flower's settings, each with its reason: `celery -A turnchain.workers.app flower --conf=` and this file's path.

Flower 2.2 executes the file. A name here that is an option of Flower or tornado sets it; any other is ignored without
a word. The command line goes before this file; FLOWER_… variables do so too, which takes the last lines below.
"""

from __future__ import annotations

import os
import re
from typing import Any, Final

from turnchain.orchestrator_core import wire
from turnchain.orchestrator_core.contracts import STAGES
from turnchain.tasks.request import QUEUE

# Whoever sees Flower sees turn ids, hosts and settings: others come in by a proxy, or by an explicit --address.
address = "127.0.0.1"

# Revoking, shutting workers down and applying any task are the broker's credentials in a browser.
read_only = True

# 6.4 kB each. A turn is eight rows, its wait in the queue included.
max_tasks = 5000

# What became of a stage stands in its result. The id is long, so it stands behind what is read at a glance.
tasks_columns = "name,state,result,runtime,uuid,received,worker"

# Stages take from a millisecond to the limit of dispatch. Two buckets a decade: each one is a series for every task
# name and worker.
task_runtime_metric_buckets = [
    0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 300.0, 900.0,
]  # fmt: skip

# Seconds. A worker's name is a label of every series, and a container's name never comes again.
purge_offline_workers = 300

OURS: Final = {*map(wire.task_name, STAGES), wire.TAKEOVER, wire.DRAIN, QUEUE}
HIDDEN: Final = "(not shown)"
AUTH_VARIABLE: Final = "TURNCHAIN_FLOWER_BASIC_AUTH"

# What our own code sends: a turn's id first, then words and numbers.
_ARGUMENTS: Final = re.compile(r"[(\[]'([0-9a-f-]{36})', (?:'\w+', )?(\d+)(?:, '[\w.:-]+')?[)\]]")
# What may be raised around a stage, and says ids and numbers only.
_RAISED: Final = ("StageFailed", "WorkerLostError", "TimeLimitExceeded", "Terminated")


def format_task(task: Any) -> Any:
    """A copy of a task, as the pages show it: ids, kinds and numbers, whatever else is on this broker. [DESIGN 1.6]"""
    ours = task.name in OURS
    found = _ARGUMENTS.fullmatch(task.args or "") if ours else None
    task.args = f"turn {found[1]}, fence {found[2]}" if found else _unless_empty(task.args)
    task.kwargs = _unless_empty(task.kwargs)
    if not ours or task.result == "None":
        task.result = _unless_empty(task.result)
    if task.exception and not (ours and task.exception.startswith(_RAISED)):
        kind = task.exception.partition("(")[0]
        task.exception, task.traceback = kind if kind.isidentifier() else HIDDEN, None
    task.result = task.result or task.exception or ""
    return task


def _unless_empty(shown: str | None) -> str:
    return "" if shown in (None, "", "()", "[]", "{}", "None") else HIDDEN


def accounts(value: str) -> list[str]:
    """Flower's `basic_auth` from `user:password[,user:password]`.

    Raises:
        SystemExit: with one sentence that names the entry by its place, since it may be a password.
    """
    entries = [entry.strip() for entry in value.split(",")]
    for place, entry in enumerate(entries, 1):
        user, _, password = entry.partition(":")
        # Flower compares texts in constant time, which Python does for ASCII only: others could never log in.
        if not user or not password or not entry.isascii():
            raise SystemExit(
                f"turnchain: {AUTH_VARIABLE} is not usable: entry {place} of {len(entries)} is not user:password in "
                "ASCII; write user:password, several separated by commas, or leave the variable unset"
            )
    return entries


if os.environ.get(AUTH_VARIABLE):
    basic_auth = accounts(os.environ[AUTH_VARIABLE])

for _name in [name for name in globals() if f"FLOWER_{name.upper()}" in os.environ]:
    del globals()[_name]
