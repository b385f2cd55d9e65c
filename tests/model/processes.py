"""The model's processes: workers that run the real stages, and one that sweeps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast

from tests.model.dialogue import dialogue
from tests.model.gates import Crash, Gate, Gated, Order
from tests.model.oracle import CAPACITY, MAX_ATTEMPTS, Oracle
from tests.model.time import Time
from turnchain.orchestrator_core.contracts import Claim, TurnId, Wake
from turnchain.orchestrator_core.environment import Environment, Policy
from turnchain.orchestrator_core.errors import (
    CancelRequested,
    DeadlinePassed,
    HandBackAsked,
    LeaseLost,
)
from turnchain.orchestrator_core.invoke import Invoker
from turnchain.orchestrator_core.registry import Registry
from turnchain.orchestrator_core.runner import run_stage
from turnchain.orchestrator_core.sweep import SweepPolicy, sweep
from turnchain.orchestrator_core.turn_context import TurnContext

SECOND = timedelta(seconds=1)
LEASE = 20 * SECOND
POLICY = Policy(lease=LEASE, max_attempts=MAX_ATTEMPTS, max_in_flight=CAPACITY)
SWEEP = SweepPolicy(interval=5 * SECOND, rewake_first=5 * SECOND, rewake_longest=20 * SECOND)


@dataclass(frozen=True)
class Takeover:
    """A parent's message: my child died while it ran this."""

    wake: Wake
    process_id: str


Message = Wake | Takeover


class Watched:
    """`Watch`: a lease as its process knows it, by its own steady clock and the last renewal's answer."""

    def __init__(self, claim: Claim, granted: timedelta, worker: Worker) -> None:
        self.claim = claim
        self.worker = worker
        self.until = granted + LEASE
        self.steps_before = worker.time.steps
        self.stop: type[BaseException] | None = None

    def check(self) -> None:
        self.check_call()
        if self.worker.draining:
            raise HandBackAsked

    def check_call(self) -> None:
        if self.worker.time.elapsed() >= self.until:
            raise LeaseLost
        if self.stop:
            raise self.stop


class Process:
    """One process with one thread, which runs from gate to gate."""

    def __init__(self, name: str, oracle: Oracle, time: Time, bag: list[Message]) -> None:
        self.name = name
        self.oracle = oracle
        self.time = time
        self.bag = bag
        self.gate = Gate()
        self.ledger: Any = Gated(oracle, self.gate)
        self.failure: BaseException | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no thread runs."""
        return self.gate.before is None

    def stands_before(self, statement: str) -> bool:
        """Whether the next statement is that one, or of that kind."""
        return (self.gate.before or "").startswith(statement)

    def go(self, steps: int) -> None:
        """Execute so many statements, or until the thread ends."""
        while steps > 0 and not self.is_idle:
            self.gate.open()
            steps -= 1

    def crash(self, *, after: bool) -> None:
        """Die before or after the statement that the thread waits for."""
        self.gate.open(Order.CRASH_AFTER if after else Order.CRASH_BEFORE)

    def publish(self, wakes: Iterable[Wake | None]) -> None:
        """One statement each: a process may die between two."""
        for wake in wakes:
            if wake is not None:
                self.gate.stop("publish")
                self.bag.append(wake)

    def guarded(self, act: Any) -> None:
        """Note what no stage may raise."""
        try:
            act()
        except Exception as error:  # the thread's end is a process edge; the machine raises it
            self.failure = error


class Sweeper(Process):
    """Housekeeping and beat: both call the same function."""

    def start(self) -> None:
        """Begin a pass."""
        self.gate.start(
            lambda: self.guarded(lambda: self.publish(sweep(self.ledger, POLICY, SWEEP) or []))
        )


class Worker(Process):
    """A pool process that runs one message at a time through the real runner and stages."""

    def __init__(self, name: str, oracle: Oracle, time: Time, bag: list[Message]) -> None:
        super().__init__(name, oracle, time, bag)
        self.life = 0
        self.serial = 0
        self.watch: Watched | None = None
        self.message: Message | None = None
        self.draining = False
        """SIGTERM came: hand back at the next boundary, and be another process then."""
        stores = oracle.stores
        self.env = Environment(
            ledger=self.ledger,
            checkpoints=cast("Any", Gated(stores.checkpoints, self.gate)),
            snapshots=cast("Any", Gated(stores.snapshots, self.gate)),
            registry=Registry([dialogue(self)]),
            clock=time,
            leases=self,
            invoker=Invoker(),
            new_id=lambda: TurnId("no new turns here"),
            policy=POLICY,
        )

    # -- running

    def take(self, message: Message, *, inline: bool) -> None:
        """Begin to work on a message. `inline` calls the next stages in place."""
        self.message = message
        self.gate.start(lambda: self.guarded(lambda: self._work(message, inline=inline)))

    def _work(self, message: Message, *, inline: bool) -> None:
        if isinstance(message, Takeover):
            taken = self.ledger.take_over(
                message.wake, process_id=message.process_id, max_attempts=MAX_ATTEMPTS
            )
            self.publish([taken])
            return
        following: Wake | None = message
        held: TurnContext | None = None
        while following is not None:
            passage = run_stage(following, self.env, held=held, goes_on=lambda _: inline)
            self.publish(passage.others)
            following, held = passage.following, passage.held
            if not inline:
                self.publish([following])
                break
        if self.draining:
            self._starts_again()

    def die(self, *, after: bool) -> Takeover | None:
        """Crash, and start again as another process. What its parent would tell, if it owned something."""
        message = self.message if self.watch else None
        process_id = self.process_id
        self.crash(after=after)
        self.watch = None
        self._starts_again()
        return Takeover(message, process_id) if isinstance(message, Wake) else None

    def _starts_again(self) -> None:
        self.life += 1
        self.draining = False

    def renew(self) -> None:
        """What the housekeeping thread does every two seconds."""
        if self.watch is None:
            return
        asked = self.time.elapsed()
        (answer,) = self.oracle.renew([self.watch.claim], LEASE)
        if not answer.renewed:
            self.watch.stop = LeaseLost
            return
        self.watch.until = asked + LEASE
        if answer.cancel_requested:
            self.watch.stop = CancelRequested
        elif answer.deadline_passed:
            self.watch.stop = DeadlinePassed

    # -- `Leases`

    @property
    def process_id(self) -> str:
        """Never the same for two lives."""
        return f"{self.name}:{self.life}"

    def new_owner(self) -> str:
        self.serial += 1
        return f"{self.process_id}/{self.serial}"

    def begin(self, claim: Claim, granted: timedelta) -> Watched:
        self.watch = Watched(claim, granted, self)
        return self.watch

    def go_on(self, claim: Claim) -> None:
        if self.watch:
            self.watch.claim = claim

    def end(self, claim: Claim) -> None:
        self.watch = None

    # -- `Witness`

    def sees_iteration(self, run_id: str, iteration: int) -> None:
        tables = self.oracle.stores.tables
        run = tables.runs.get(run_id)
        over = tables.turns[TurnId(run_id)].status.is_final
        self._must_not(
            over or (run is not None and iteration in run.iterations), "a settled iteration"
        )
        if not over:
            self.oracle.require(run is not None, "an intent ran before its run was on record [I11]")
            saved = iteration == 0 or (run is not None and iteration - 1 in run.iterations)
            self.oracle.require(saved, "an iteration began before the one before was saved")

    def sees_effect(self, run_id: str, effect_key: str) -> None:
        self._must_not((run_id, effect_key) in self.oracle.finished, "a finished step")

    def takes_time(self, what: str) -> None:
        if self.gate.stop(what):
            raise Crash

    def _must_not(self, repeated: bool, what: str) -> None:
        # Whose clock says that the lease runs on cannot know that the database's clock was set: such a process may
        # call once more what another has settled meanwhile. It writes nothing, which the oracle sees to.
        was_set = self.watch is not None and self.watch.steps_before != self.time.steps
        self.oracle.require(not repeated or was_set, f"{what} ran again [DESIGN 1.3]")
