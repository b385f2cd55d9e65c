"""Going on in place: the next stage's task is called where this one ran, instead of by a message. [DESIGN 5, ADR 0016]

It is the same task, with an id of its own. Celery sends events only for what came by message; so each stage called in
place leaves a note in what the first one returns, from which the worker's main process makes its events.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache
from typing import Any, Final

from celery import Celery
from celery.app.trace import build_tracer

from turnchain.orchestrator_core import wire
from turnchain.orchestrator_core.contracts import Stage
from turnchain.orchestrator_core.environment import Environment
from turnchain.orchestrator_core.runner import Passage, let_go
from turnchain.orchestrator_core.turn_context import TurnContext

_BETWEEN: Final = " > "


@dataclass(slots=True, repr=False)
class Handed:
    """What a stage called in place is given beside the ids, and what it gives back. No message can hold one."""

    held: TurnContext
    passage: Passage | None = None
    """None: the stage failed."""

    def __repr__(self) -> str:
        # Celery writes a task's arguments into its log records; what a person said is in here.
        return "in place"


@dataclass(frozen=True, slots=True)
class Note:
    """What a stage called in place came to, and how long it took."""

    stage: Stage
    runtime: timedelta
    line: str = ""
    """What it told of itself; empty: that it went well."""


@dataclass(slots=True)
class Trail:
    """The stages that one message has run after its own."""

    app: Celery
    env: Environment
    task_id: str
    """Of the message's own task."""
    hostname: str
    """The worker's name in Celery's words."""
    notes: list[Note] = field(default_factory=list[Note])

    def follow(self, passage: Passage) -> Passage | None:
        """Run stage after stage while the turn is held; returns what came of the last one, None if it failed."""
        last: Passage | None = passage
        while last is not None and last.held is not None and last.following is not None:
            handed = Handed(last.held)
            try:
                self._call(last.following.stage, handed)
            finally:
                # A stage that was run has ended the lease itself, or kept it for the next one.
                if handed.passage is None:
                    let_go(handed.held, self.env)
            last = handed.passage
        return last

    def _call(self, stage: Stage, handed: Handed) -> None:
        began = self.env.clock.elapsed()
        wake = handed.held.claim.wake
        task_id = id_in_place(self.task_id, stage)
        request = {
            "id": task_id,
            "task": wire.task_name(stage),
            "root_id": self.task_id,
            "parent_id": self.task_id,
            "is_eager": True,
            "ignore_result": True,
            "hostname": self.hostname,
        }
        done = _tracer(self.app, stage)(task_id, (*wire.arguments(wake), handed), {}, request)
        line = done.retval if done.info is None and done.retval else ""
        self.notes.append(Note(stage, self.env.clock.elapsed() - began, str(line)))

    def told(self, line: str | None) -> str | None:
        """The first stage's line with the notes behind it."""
        if not self.notes:
            return line
        notes = (
            f"{note.stage} {note.runtime.total_seconds():.6f} {note.line}".rstrip()
            for note in self.notes
        )
        return _BETWEEN.join([line or "", *notes])


@cache
def _tracer(app: Celery, stage: Stage) -> Callable[..., Any]:
    """What `Task.apply` makes anew for each call, and calls: prerun, the task, postrun, logs and error handling."""
    task = app.tasks[wire.task_name(stage)]
    return build_tracer(task.name, task, app=app, eager=True, propagate=False)


def id_in_place(task_id: str, stage: Stage) -> str:
    """The id of a stage called in place, after that of the message: as if the chain had gone by the broker."""
    turn_id, _, rest = task_id.partition(":")
    return f"{turn_id}:{stage}:{rest.partition(':')[2]}"


def read(shown: str) -> tuple[str, list[Note]]:
    """A line and its notes, as Celery passes both on: the representation of what the task returned."""
    line, *notes = shown.strip("'").split(_BETWEEN)
    return line or "None", [_note(*note.split(" ", 2)) for note in notes]


def _note(stage: str, runtime: str, line: str = "") -> Note:
    return Note(Stage(stage), timedelta(seconds=float(runtime)), line)
