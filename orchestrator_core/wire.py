"""The contract between those who publish and those who work: names of tasks and queues, ids, arguments.

Names are fixed here and not derived from module paths, so that moving a file never orphans a message in flight.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pydantic import ValidationError

from turnchain.orchestrator_core.contracts import STAGES, Stage, Wake

TASK_PREFIX: Final = "turn."
TAKEOVER: Final = "turn.takeover"
DRAIN: Final = "turn.drain"

TURNS_QUEUE: Final = "turns"
CONTROL_QUEUE: Final = "control"
MAINTENANCE_QUEUE: Final = "maintenance"
QUEUES: Final = (TURNS_QUEUE, CONTROL_QUEUE, MAINTENANCE_QUEUE)
STAGE_NAMES: Final = tuple(stage.value for stage in STAGES)


def task_name(stage: Stage) -> str:
    """`turn.load` to `turn.compact`."""
    return TASK_PREFIX + stage.value


def task_id(wake: Wake, publication: str) -> str:
    """`turn:stage:fence.publication`: readable in Flower, never the same for two publications. [DESIGN 5]"""
    return f"{wake.turn_id}:{wake.stage}:{wake.fence}.{publication}"


def arguments(wake: Wake) -> tuple[str, int]:
    """Positional arguments of a stage task. Ids only: what a person wrote never travels by broker. [DESIGN 1.6]"""
    return wake.turn_id, wake.fence


def read_wake(stage: Any, arguments: Sequence[Any]) -> Wake | None:
    """The wake in a message that anybody may have written: a UUID and a number, or None."""
    try:
        turn_id, fence = arguments
        if not is_turn_id(turn_id) or isinstance(fence, bool) or not 0 <= fence < _FENCE_END:
            return None
        return Wake(turn_id=turn_id, stage=stage, fence=fence)
    except (ValueError, TypeError, ValidationError):
        return None


_FENCE_END = 2**63


def is_turn_id(value: Any) -> bool:
    """Whether it is a UUID in its canonical 36 characters."""
    groups = value.split("-") if isinstance(value, str) else []
    hexadecimal = all(set(group) <= set("0123456789abcdef") for group in groups)
    return hexadecimal and [len(group) for group in groups] == [8, 4, 4, 4, 12]
