"""What every stage task does around the core: read the wake, run the stage, let the chain go on or cut it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

from celery import Task

from turnchain.orchestrator_core import wire
from turnchain.orchestrator_core.contracts import Stage, Wake
from turnchain.orchestrator_core.errors import TurnchainError
from turnchain.orchestrator_core.runner import Passage, let_go, run_stage
from turnchain.tasks import telling
from turnchain.tasks.chain import publish
from turnchain.tasks.environment import environment
from turnchain.tasks.in_place import Handed, Trail
from turnchain.tasks.soft_limits import unheard

log = logging.getLogger("turnchain.tasks")

SHORT_LIMIT_SECONDS = 60
"""Hard limit of every stage but dispatch, where the pool has limits; housekeeping stops renewing after as long."""
DISPATCH_LIMIT_SECONDS = 15 * 60


class StageFailed(Exception):
    """A stage could not run; the ledger's row stays where it is, and the sweep brings it back.

    Says ids and kinds only, since Celery writes it to logs and Flower.
    """


class StageTask(Task[Any, Any]):
    """Base of the seven. Limits and acknowledgement are set here, per task, never as an app's global settings."""

    abstract = True
    Request = "turnchain.tasks.request:StageRequest"
    acks_late = True
    """The message stays with the broker until the stage is through; a redelivery finds nothing to claim."""
    acks_on_failure_or_timeout = True
    """What becomes of a failed stage is the ledger's business; redelivering its message would loop."""
    acks_on_failure = True
    acks_on_timeout = True
    retry_on_worker_lost = False
    reject_on_worker_lost = False
    """A message that kills its child would come back for ever; `turn.takeover` counts attempts instead."""
    ignore_result = True
    store_errors_even_if_ignored = False
    serializer = "json"
    time_limit = SHORT_LIMIT_SECONDS
    """A worker's settings replace it at its start."""

    def pass_on(self, stage: Stage, arguments: Sequence[Any]) -> str | None:
        """Run the stage that the message names; returns what it tells Flower of it.

        Running it twice is safe: the second finds nothing to claim and cuts its chain.

        Raises:
            StageFailed: the stage could not run.
        """
        handed = next((each for each in arguments if isinstance(each, Handed)), None)
        wake = handed.held.claim.wake if handed else wire.read_wake(stage, arguments)
        if wake is None:
            self._cut()
            log.warning(
                "malformed message dropped",
                extra={"task_id": str(self.request.id)[:120], "stage": stage.value},
            )
            return telling.MALFORMED
        if handed:
            return self._run(wake, handed)
        with unheard():
            return self._run(wake, None)

    def _run(self, wake: Wake, handed: Handed | None) -> str | None:
        env = environment()
        try:
            passage = run_stage(
                wake, env.core, held=handed.held if handed else None, goes_on=env.goes_on
            )
        except BaseException as error:
            self._cut()
            if isinstance(error, SystemExit | KeyboardInterrupt) and _is_main_thread():
                raise  # the end of a prefork child, which its parent announces
            # Nothing else may leave: an exception that is none to Celery costs a threads pool the slot for good.
            code = error.code if isinstance(error, TurnchainError) else type(error).__name__
            log.error(  # noqa: TRY400 - an exception's text may hold what a person wrote
                "stage failed", extra=_ids(wake) | {"code": code, "error": type(error).__name__}
            )
            raise StageFailed(f"{code} in {wake.stage} of turn {wake.turn_id}") from None
        trail = Trail(self.app, env.core, str(self.request.id), str(self.request.hostname))
        try:
            self._go_on(wake, passage)
            line = telling.tell(passage, env.core.policy)
            if handed:
                # Not before: whoever called goes on with it, and must not if anything failed here.
                handed.passage = passage
                return line
            last = trail.follow(passage)
        except BaseException:
            # Whatever it was, nobody goes on with the turn: it must not be renewed. Twice does no harm.
            if passage.held:
                let_go(passage.held, env.core)
            raise
        if last is None:
            raise StageFailed(f"in {trail.notes[-1].stage} of turn {wake.turn_id}, called in place")
        return trail.told(line)

    def _go_on(self, wake: Wake, passage: Passage) -> None:
        """Celery itself publishes the next link when the chain may go on; anything else is published from here."""
        others = list(passage.others)
        following = None if passage.held else passage.following
        if (
            following is None
            or following.stage is not wake.stage.following
            or not self.request.chain
        ):
            self._cut()
            others += [following] if following else []
        if passage.refusal:
            log.info("not claimed", extra=_ids(wake) | {"reason": passage.refusal.reason})
        for other in others:
            publish_quietly(self.app, other)

    def _cut(self) -> None:
        self.request.chain = None


def publish_quietly(app: Any, wake: Wake) -> None:
    """Publish after a commit: what the broker does not take now, the sweep publishes again. [DESIGN 6]"""
    try:
        publish(app, wake)
    except Exception as error:
        log.warning("not published", extra=_ids(wake) | {"error": type(error).__name__})


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _ids(wake: Wake) -> dict[str, Any]:
    return {"turn_id": wake.turn_id, "stage": wake.stage.value, "fence": wake.fence}
