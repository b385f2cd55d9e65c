"""Stage 6: write the outcome, once.

Reads the outcome; writes checkpoint, terminal event, status and outcome in one transaction, then admits what waits.
Running it twice is safe: the transaction happened or did not; where it did, there is nothing left to claim.
"""

from __future__ import annotations

from typing import Any

from celery import shared_task

from turnchain.orchestrator_core.contracts import Stage
from turnchain.tasks.base import StageTask


@shared_task(name="turn.persist", base=StageTask, bind=True)
def persist(self: StageTask, *arguments: Any) -> str | None:
    """Arguments: turn id and fence."""
    return self.pass_on(Stage.PERSIST, arguments)
