"""Outcomes that are decided outside the supervisor."""

from __future__ import annotations

from turnchain.orchestrator_core.contracts import Outcome, TurnStatus
from turnchain.orchestrator_core.errors import (
    DeadlineExceededError,
    OrchestratorCancelledError,
    SupervisorCancelledError,
    TurnDeadError,
    TurnInterruptedError,
    to_record,
)


def cancelled() -> Outcome:
    """Somebody cancelled the turn before it was persisted. [O 11.9]"""
    error = OrchestratorCancelledError("the turn was cancelled before its outcome was decided")
    error.__cause__ = SupervisorCancelledError("stopped at the cancellation of its turn")
    return Outcome(status=TurnStatus.CANCELLED, error=to_record(error))


def deadline_exceeded() -> Outcome:
    """The deadline covers waiting and running. [DESIGN 10]"""
    error = DeadlineExceededError(
        "the deadline passed before the turn settled: give it more time, or add workers"
    )
    return Outcome(status=TurnStatus.FAILED, error=to_record(error))


def dead(attempts: int) -> Outcome:
    """The turn lost its worker `attempts` times in a row without progress. [O 15.2 G48]"""
    error = TurnDeadError(
        f"the turn lost its worker {attempts} times in a row without settling an iteration or a step, and was "
        "given up: look for what kills the worker (memory, a native crash, a time limit), then enqueue it again",
        {"attempts": attempts},
    )
    return Outcome(status=TurnStatus.DEAD, error=to_record(error))


def interrupted() -> Outcome:
    """The process that ran the turn in place is gone. [DESIGN 3]"""
    error = TurnInterruptedError(
        "the process that ran this turn is gone: resume() goes on at the last saved iteration"
    )
    return Outcome(status=TurnStatus.FAILED, error=to_record(error))
