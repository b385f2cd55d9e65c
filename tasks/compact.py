"""Stage 7: retention, after the answer is out.

Reads the policy; deletes old checkpoints, the snapshot and what was request-scoped.
Running it twice is safe: it deletes what is gone already.
"""

from __future__ import annotations

from typing import Any

from celery import shared_task

from turnchain.orchestrator_core.contracts import Stage
from turnchain.tasks.base import StageTask


@shared_task(name="turn.compact", base=StageTask, bind=True)
def compact(self: StageTask, *arguments: Any) -> str | None:
    """Arguments: turn id and fence."""
    return self.pass_on(Stage.COMPACT, arguments)
