"""Stage 1: read the session's latest checkpoint and history.

Reads the request and the latest checkpoint; writes the turn's index, history and the session's row.
Running it twice is safe: nobody else can settle a turn of this session meanwhile, so a repetition finds the same.
"""

from __future__ import annotations

from typing import Any

from celery import shared_task

from turnchain.orchestrator_core.contracts import Stage
from turnchain.tasks.base import StageTask


@shared_task(name="turn.load", base=StageTask, bind=True)
def load(self: StageTask, *arguments: Any) -> str | None:
    """Arguments: turn id and fence."""
    return self.pass_on(Stage.LOAD, arguments)
