"""The drain: one sweep, scheduled by beat. Every process's housekeeping sweeps as well, so a dead beat changes nothing.

Running it twice is safe: one process sweeps in an interval, the others find that it is done.
"""

from __future__ import annotations

from typing import Any

from celery import shared_task

from turnchain.orchestrator_core import wire
from turnchain.orchestrator_core.sweep import sweep
from turnchain.tasks.base import publish_quietly
from turnchain.tasks.environment import environment


@shared_task(name=wire.DRAIN, bind=True, ignore_result=True, time_limit=60)
def drain(self: Any) -> None:
    """Take over what expired, wake what nobody claimed, end what is too late, admit what waits."""
    env = environment()
    for wake in sweep(env.core.ledger, env.core.policy, env.sweep) or ():
        publish_quietly(self.app, wake)
