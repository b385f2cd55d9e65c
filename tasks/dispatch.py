"""Stage 5: run the supervisor, saving each iteration.

Reads the snapshot; writes an iteration at a time with its events, in the end the outcome.
Running it twice is safe: it goes on after the last settled iteration and step.
"""

from __future__ import annotations

from typing import Any

from celery import shared_task

from turnchain.orchestrator_core.contracts import Stage
from turnchain.tasks.base import DISPATCH_LIMIT_SECONDS, StageTask


@shared_task(name="turn.dispatch", base=StageTask, bind=True, time_limit=DISPATCH_LIMIT_SECONDS)
def dispatch(self: StageTask, *arguments: Any) -> str | None:
    """Arguments: turn id and fence."""
    return self.pass_on(Stage.DISPATCH, arguments)
