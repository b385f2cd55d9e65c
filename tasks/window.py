"""Stage 4: cut the history to what each role sees.

Reads the history; writes both slices.
Running it twice is safe: a repetition replaces the slices by the same ones, and later stages use what is stored.
"""

from __future__ import annotations

from typing import Any

from celery import shared_task

from turnchain.orchestrator_core.contracts import Stage
from turnchain.tasks.base import StageTask


@shared_task(name="turn.window", base=StageTask, bind=True)
def window(self: StageTask, *arguments: Any) -> str | None:
    """Arguments: turn id and fence."""
    return self.pass_on(Stage.WINDOW, arguments)
