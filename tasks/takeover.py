"""Recovery, the quick way: a pool's parent says that a child died, or was killed, inside a stage.

Reads and writes the turn's row. Running it twice, late, or for a stage that somebody else runs by now changes nothing:
the ledger acts only if that very process still owns exactly this stage and fence.
"""

from __future__ import annotations

import logging
from typing import Any

from celery import shared_task

from turnchain.orchestrator_core import wire
from turnchain.tasks.base import publish_quietly
from turnchain.tasks.environment import environment

log = logging.getLogger("turnchain.tasks")

ARGUMENTS = 4


@shared_task(name=wire.TAKEOVER, bind=True, ignore_result=True, acks_late=True, time_limit=60)
def takeover(self: Any, *arguments: Any) -> None:
    """Arguments: turn id, stage, fence and the dead child's process id."""
    wake = (
        wire.read_wake(arguments[1], (arguments[0], arguments[2]))
        if len(arguments) == ARGUMENTS
        else None
    )
    if wake is None:
        log.warning("malformed takeover dropped", extra={"task_id": str(self.request.id)[:120]})
        return
    env = environment().core
    ready = env.ledger.take_over(
        wake, process_id=str(arguments[3]), max_attempts=env.policy.max_attempts
    )
    for each in [ready] if ready else env.ledger.admit(env.policy.max_in_flight):
        publish_quietly(self.app, each)
