"""`turnchain demo`: the whole stack from wheels, dialogues on it, and a worker killed in the middle of a turn."""

from __future__ import annotations

import argparse
import asyncio
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from pathlib import Path
from time import monotonic

import psycopg

import turnchain
from turnchain import Stage
from turnchain.examples.booking import interruption, story, verdict
from turnchain.examples.booking.bot import THINK_VARIABLE
from turnchain.examples.booking.cut import Cut
from turnchain.examples.booking.dialogues import SAMPLE, Dialogue, repeated
from turnchain.examples.booking.play import Answered, leave_out, play, playable, prepare
from turnchain.examples.booking.screen import Screen
from turnchain.orchestrator_core.errors import TurnchainError
from turnchain.orchestrator_core.wire import TURNS_QUEUE
from turnchain.workers.embedded import temporary_directory
from turnchain.workers.settings import Settings
from turnchain.workers.stack import Interrupts, Stack, StackOptions, interruptible, running

INTERRUPTED = 130
THREADS = 4
"""Turns that one worker runs at once."""
THINK_SECONDS = 0.25
"""What an iteration takes, in place of a model's call: long enough to be killed in."""
MOST_TURNS_A_SECOND = 14
"""What two cores play with ease, however many workers share them."""
SETTLE_SECONDS = 30.0
CHECK_SECONDS = 0.5
LAST_LOOK_SECONDS = 2.0


def run(options: argparse.Namespace) -> int:
    """0 if nothing was lost, doubled or wrong; 1 if something was; 130 if it was interrupted.

    Raises:
        TurnchainError: the run could not be made.
    """
    screen = Screen(sys.stdout)
    try:
        given = playable(options.dialogues or SAMPLE)
        with interruptible() as interrupts:
            return _Demo(options, given, screen, interrupts).run()
    except KeyboardInterrupt:
        screen.say("Interrupted; everything is stopped.")
        return INTERRUPTED
    except (ValueError, OSError, RuntimeError, psycopg.Error) as error:
        raise TurnchainError(str(error).strip().partition("\n")[0]) from error


def enough(dialogues: list[Dialogue], slots: int, seconds: float) -> list[Dialogue]:
    """The dialogues, at least once, and as often as it takes to keep so many slots busy for so long."""
    iterations = sum(len(turn.frames) + 1 for each in dialogues for turn in each.turns)
    by_slots = ceil(seconds * slots / (iterations * THINK_SECONDS))
    by_cores = int(seconds * MOST_TURNS_A_SECOND / _turns(dialogues))
    return repeated(dialogues, max(1, min(by_slots, by_cores)))


@dataclass(slots=True)
class _Demo:
    """One run, from the first sentence to the table."""

    options: argparse.Namespace
    given: list[Dialogue]
    screen: Screen
    interrupts: Interrupts
    planned: list[Dialogue] = field(init=False)
    left_out: list[Dialogue] = field(default_factory=list[Dialogue])
    """What there was no time for."""

    def __post_init__(self) -> None:
        self.planned = enough(self.given, self.slots, self.options.seconds)

    @property
    def slots(self) -> int:
        """Turns that run at once."""
        return self.options.workers * THREADS

    def run(self) -> int:
        """The exit code."""
        often = (
            f"for about {self.options.seconds} s"
            if len(self.planned) > len(self.given)
            else "once each"
        )
        killed = "." if self.options.no_kill else "; one of them will be killed."
        self.screen.say(
            f"Playing {story.counted(len(self.given), 'dialogue')} {often}, "
            f"on {story.counted(self.options.workers, 'Celery worker')} of {THREADS} threads{killed}"
        )
        with ExitStack() as exits:
            directory = self.options.directory or exits.enter_context(temporary_directory())
            try:
                is_good = self._on_stack(directory)
            except Exception:
                self._show_logs(directory)
                raise
            if not is_good:
                self._show_logs(directory)
            return 0 if is_good else 1

    def _on_stack(self, directory: Path) -> bool:
        say = self.screen.say
        say("Starting Postgres, Valkey, the workers, beat and Flower ...")
        began = monotonic()
        with running(
            self._stack_options(directory), tell=self.screen.tell, interrupts=self.interrupts
        ) as stack:
            say(f"They answer after {monotonic() - began:.1f} s, and can be looked at:")
            self._show_places(stack)
            prepare(stack.postgres_url, self.planned)
            cut = None if self.options.no_kill else self._cut(stack)
            began = monotonic()
            with self.screen.playing(_turns(self.planned)):
                answers = interruption.run(self._play(stack, cut))
            seconds = monotonic() - began
            leave_out(stack.postgres_url, [each.dialogue_id for each in self.left_out])
            verdict.wait_until_done(stack.postgres_url, SETTLE_SECONDS)
            found = verdict.judge(stack.postgres_url)
            say()
            self.screen.table(story.rows(found, cut, answers, seconds))
            say()
            if cut and not cut.turns:
                say("No worker was killed: all was answered before one was seen inside a turn.")
            say(*(story.HELD, "green") if found.is_good else (story.BROKEN, "red"))
            if self.options.keep:
                self._stay(stack)
            else:
                say("Flower and Postgres end now; --keep leaves them up to be looked at.")
            return found.is_good

    def _stack_options(self, directory: Path) -> StackOptions:
        return StackOptions(
            directory=directory,
            workers=self.options.workers,
            pool="threads",
            concurrency=THREADS,
            # Of this run alone: a directory that was used before holds other runs' turns.
            database=f"demo_{secrets.token_hex(3)}",
            environ={
                **os.environ,
                "TURNCHAIN_ORCHESTRATORS": "turnchain.examples.booking.bot:booking",
                THINK_VARIABLE: str(THINK_SECONDS),
            },
        )

    def _cut(self, stack: Stack) -> Cut:
        tell, lease = self.screen.tell, Settings.from_env(stack.environ).lease
        return Cut(
            stack.postgres_url,
            stack.workers,
            lambda cut: tell(*story.of_kill(cut, lease), style="red"),
            lambda cut, takeover: tell(*story.of_takeover(cut, takeover), style="green"),
        )

    async def _play(self, stack: Stack, cut: Cut | None) -> list[Answered]:
        """Ends early when the stack cannot go on."""
        is_warm = asyncio.Event()
        ends = monotonic() + self.options.seconds

        def answered(turns: int) -> None:
            self.screen.answered(turns)
            if turns >= min(self.slots, _turns(self.planned) // 4):
                is_warm.set()

        try:
            async with asyncio.TaskGroup() as group:
                killing = group.create_task(_kill_when(is_warm, cut))
                watching = group.create_task(_watch(stack))
                answers = await play(
                    _client(stack), self.planned, self.slots, answered, partial(self._begins, ends)
                )
                if cut and cut.turns:
                    # What was taken over is answered by now, so this is there to be seen.
                    await asyncio.wait([killing], timeout=LAST_LOOK_SECONDS)
                killing.cancel()
                watching.cancel()
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return answers

    def _begins(self, ends: float, number: int) -> bool:
        """Every dialogue is played once; on a slow machine not as often as planned."""
        if number < len(self.given) or monotonic() < ends:
            return True
        self.left_out.append(self.planned[number])
        self.screen.shorten(len(self.planned[number].turns))
        return False

    def _show_places(self, stack: Stack) -> None:
        program = "turnchain" if shutil.which("turnchain") else os.path.relpath(sys.argv[0])
        self.screen.say(f"  stages, in Flower   {stack.flower_url}")
        self.screen.say(f"  turns, in Postgres  export TURNCHAIN_POSTGRES_URL={stack.postgres_url}")
        self.screen.say(f"                      {program} turns")

    def _stay(self, stack: Stack) -> None:
        """Leave everything up until Ctrl-C, which is the expected end, or until a server dies."""
        self.screen.say("Everything stays up. Ctrl-C ends it.")
        self._show_places(stack)
        with suppress(KeyboardInterrupt):
            stack.wait()

    def _show_logs(self, directory: Path) -> None:
        logs = directory / "logs"
        if not logs.is_dir():
            return
        if self.options.directory is None:  # it is removed in a moment
            kept = tempfile.mkdtemp(prefix="turnchain-demo-logs-")
            logs = Path(shutil.copytree(logs, kept, dirs_exist_ok=True))
        self.screen.say(f"What the processes had to say is in {logs}")


def _client(stack: Stack) -> turnchain.SessionClient:
    settings = Settings.from_env(stack.environ)
    return turnchain.connect(
        stack.postgres_url,
        broker=stack.broker_url,
        orchestrators=["booking"],
        pool_size=8,
        key_prefix=settings.key_prefix,
        load_queue=settings.stage_queues.get(Stage.LOAD, TURNS_QUEUE),
    )


async def _kill_when(is_warm: asyncio.Event, cut: Cut | None) -> None:
    await is_warm.wait()
    if cut:
        await cut.perform()


async def _watch(stack: Stack) -> None:
    while True:
        await asyncio.sleep(CHECK_SECONDS)
        stack.check()


def _turns(dialogues: Sequence[Dialogue]) -> int:
    return sum(len(each.turns) for each in dialogues)
