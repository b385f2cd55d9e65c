"""The message: a Celery chain of the stages that are still before a turn. [DESIGN 5, Message]"""

from __future__ import annotations

from collections.abc import Mapping
from secrets import token_hex
from typing import Any

from celery import Celery, Signature

from turnchain.orchestrator_core import wire
from turnchain.orchestrator_core.contracts import STAGES, Stage, Wake


def links(app: Celery, wake: Wake, publication: str) -> list[Signature[Any]]:
    """The signatures from the wake's stage on, made by name, so that a producer needs no task code.

    Every argument is an id. No `eta` and no `countdown`: waiting is the ledger's. Task ids are fresh for every
    publication, so that no worker takes a second wake-up call for the first.
    """
    ahead = [wake.model_copy(update={"stage": stage}) for stage in STAGES[wake.stage.order :]]
    return [
        app.signature(
            wire.task_name(each.stage),
            args=wire.arguments(each),
            immutable=True,
            task_id=wire.task_id(each, publication),
        )
        for each in ahead
    ]


def publish(app: Celery, wake: Wake, **options: Any) -> None:
    """Send the chain's first link, the rest inside it.

    Raises:
        kombu.exceptions.OperationalError: the broker did not take it.
    """
    if wake.stage is Stage.DONE:
        return
    first, *rest = links(app, wake, token_hex(4))
    # What `chain(…).apply_async()` comes to; its canvas work for every message would cost as much as the message.
    first.apply_async(chain=rest[::-1] or None, ignore_result=True, **options)


def routes(stage_queues: Mapping[Stage, str]) -> dict[str, dict[str, str]]:
    """Celery's `task_routes` for our tasks: stages go to `turns` unless the operator gave them a queue of their own."""
    stages = {
        wire.task_name(stage): {"queue": stage_queues.get(stage, wire.TURNS_QUEUE)}
        for stage in STAGES
    }
    return {
        **stages,
        wire.TAKEOVER: {"queue": wire.CONTROL_QUEUE},
        wire.DRAIN: {"queue": wire.MAINTENANCE_QUEUE},
    }
