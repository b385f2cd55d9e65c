"""Stage 2: refuse a session that another definition saved.

Reads what load found; writes a refusal where there is one.
Running it twice is safe: it is pure.
"""

from __future__ import annotations

from typing import Any

from celery import shared_task

from turnchain.orchestrator_core.contracts import Stage
from turnchain.tasks.base import StageTask


@shared_task(name="turn.drift", base=StageTask, bind=True)
def drift(self: StageTask, *arguments: Any) -> str | None:
    """Arguments: turn id and fence."""
    return self.pass_on(Stage.DRIFT, arguments)
