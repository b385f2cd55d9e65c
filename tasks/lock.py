"""Stage 3: wait for a compaction without holding a worker.

Reads the session's lock; may park the turn.
Running it twice is safe: it is pure but for that read.
"""

from __future__ import annotations

from typing import Any

from celery import shared_task

from turnchain.orchestrator_core.contracts import Stage
from turnchain.tasks.base import StageTask


@shared_task(name="turn.lock", base=StageTask, bind=True)
def lock(self: StageTask, *arguments: Any) -> str | None:
    """Arguments: turn id and fence."""
    return self.pass_on(Stage.LOCK, arguments)
