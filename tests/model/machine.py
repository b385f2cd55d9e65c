"""Two workers, a sweep, a broker that loses, doubles and reorders, and clocks that nobody can trust."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.model.dialogue import request
from tests.model.oracle import CAPACITY, MAX_ATTEMPTS, Oracle
from tests.model.processes import SECOND, SWEEP, Message, Sweeper, Takeover, Worker
from tests.model.promises import check_all, check_done
from tests.model.time import Time
from turnchain.orchestrator_core.contracts import Owner, Stage, TurnId
from turnchain.stores import memory
from turnchain.stores.memory import MemoryLedger, MemoryStores

MAX_TURNS = 6
MAX_MESSAGES = 12
FAULTS_OF_A_KIND = 3
"""More of them only keep turns from coming far."""
ROUNDS = 120
"""Far more than the sweeps that any leftover of the faults needs."""

WHICH = st.integers(min_value=0, max_value=MAX_MESSAGES - 1)
WORKER = st.sampled_from([0, 1])
A_WHOLE_MESSAGE = 1000
COPIES = st.integers(min_value=0, max_value=2)
STATEMENTS = [
    "route",
    "intent",
    "begin_step",
    "effect",
    "finish_step",
    "commit",
    "publish",
    "admit",
    "park",
    "hand_back",
    "take_over",
]
COMMITTING = st.sampled_from([stage for stage in Stage if stage is not Stage.DONE])
STEPS = st.sampled_from([1, 2, 3, 5, 8, 13, A_WHOLE_MESSAGE])


def _while(kind: str, holds: Callable[[Any], object]) -> Any:
    """Enable a fault while its kind is not used up."""
    return precondition(lambda self: self.faults[kind] < FAULTS_OF_A_KIND and bool(holds(self)))


class TurnMachine(RuleBasedStateMachine):
    """Any interleaving of statements; then, at rest, everything accepted must have come to its end."""

    ledger_class: type[MemoryLedger] = MemoryLedger
    """The planted faults put their own here."""

    def __init__(self) -> None:
        super().__init__()
        self.time = Time()
        stores = memory.connect(self.time.store_now)
        self.stores = MemoryStores(
            ledger=self.ledger_class(stores.tables),
            checkpoints=stores.checkpoints,
            snapshots=stores.snapshots,
            tables=stores.tables,
        )
        self.oracle = Oracle(self.stores)
        self.bag: list[Message] = []
        self.workers = [Worker(name, self.oracle, self.time, self.bag) for name in ("a", "b")]
        self.sweeper = Sweeper("s", self.oracle, self.time, self.bag)
        self.turns = 0
        self.set_after_sweep: object = "never"
        self.deaths: list[Takeover] = []
        self.faults: Counter[str] = Counter()

    # -- producers

    @initialize()
    def begin(self) -> None:
        """Something to do from the first step."""
        for session in (0, 1):
            self.enqueue(session, 2, None, tells=True)

    @precondition(lambda self: self.turns < MAX_TURNS)
    @rule(
        session=st.integers(min_value=0, max_value=1),
        iterations=st.integers(min_value=1, max_value=3),
        patience=st.sampled_from([None, None, None, 15]),
        tells=st.booleans(),
    )
    def enqueue(self, session: int, iterations: int, patience: int | None, tells: bool) -> None:
        """A producer commits, and dies or goes on to `admit` and publish."""
        deadline = None if patience is None else self.time.store_now() + patience * SECOND
        asked = request(self.turns, session, iterations, deadline)
        self.turns += 1
        self.oracle.accept(asked, request_hash="h")
        if tells:
            self.bag += self.oracle.admit(CAPACITY)

    @_while("cancel", lambda self: self.turns)
    @rule(which=st.integers(min_value=0, max_value=MAX_TURNS - 1))
    def cancel(self, which: int) -> None:
        self.faults["cancel"] += 1
        self.oracle.request_cancel(_turn_id(which % self.turns), Owner())

    # -- the broker

    @precondition(lambda self: self.bag and any(worker.is_idle for worker in self.workers))
    @rule(which=WHICH, inline=st.booleans(), steps=STEPS)
    def deliver(self, which: int, inline: bool, steps: int) -> None:
        """Any message next, to a worker that is free."""
        worker = next(worker for worker in self.workers if worker.is_idle)
        worker.take(self.bag.pop(which % len(self.bag)), inline=inline)
        self._step(worker, steps)

    @precondition(lambda self: self.bag and any(worker.is_idle for worker in self.workers))
    @rule(which=WHICH, inline=st.booleans())
    def deliver_and_finish(self, which: int, inline: bool) -> None:
        self.deliver(which, inline, A_WHOLE_MESSAGE)

    @_while("lose", lambda self: self.bag)
    @rule(which=WHICH)
    def lose(self, which: int) -> None:
        self.faults["lose"] += 1
        self.bag.pop(which % len(self.bag))

    @_while("double", lambda self: self.bag)
    @rule(which=WHICH)
    def double(self, which: int) -> None:
        self.faults["double"] += 1
        self.bag.append(self.bag[which % len(self.bag)])

    # -- the workers

    @precondition(lambda self: not self.workers[0].is_idle)
    @rule(steps=STEPS)
    def step_first(self, steps: int) -> None:
        self._step(self.workers[0], steps)

    @precondition(lambda self: not self.workers[1].is_idle)
    @rule(steps=STEPS)
    def step_second(self, steps: int) -> None:
        self._step(self.workers[1], steps)

    @precondition(lambda self: any(not worker.is_idle for worker in self.workers))
    @rule(number=WORKER, after=st.booleans(), told=COPIES, again=st.booleans())
    def crash(self, number: int, after: bool, told: int, again: bool) -> None:
        """A child dies; its parent may tell; the broker may deliver its message again."""
        worker = self.workers[number]
        if worker.is_idle:
            return
        takeover = worker.die(after=after)
        if takeover:
            self.deaths.append(takeover)
            self.bag += [takeover] * told
        if again and worker.message:
            self.bag.append(worker.message)

    @precondition(lambda self: self.bag)
    @rule(
        number=WORKER,
        statement=st.sampled_from(STATEMENTS),
        inline=st.booleans(),
        after=st.booleans(),
        told=COPIES,
        again=st.booleans(),
        times=st.sampled_from([1, 1, 3]),
    )
    def crash_at(
        self,
        number: int,
        statement: str,
        inline: bool,
        after: bool,
        told: int,
        again: bool,
        times: int = 1,
    ) -> None:
        """A child comes as far as that statement, with whatever messages it takes, and no farther.

        More than one time: so do those that are told of it.
        """
        for life in range(times):
            self._bring(self.workers[number], statement, inline=inline)
            self.crash(number, after, told if life == times - 1 else 1, again)

    @precondition(lambda self: self.bag)
    @rule(number=WORKER, stage=COMMITTING, inline=st.booleans())
    def crash_at_commit(self, number: int, stage: Stage, inline: bool) -> None:
        """What differs between the stages is what they commit; none of them is left to luck."""
        self.crash_at(number, f"commit of {stage.value}", inline, after=True, told=0, again=False)

    @_while("tell", lambda self: self.deaths)
    @rule(which=WHICH)
    def tell_late(self, which: int) -> None:
        """A message of an earlier death arrives, for the first time or once more."""
        self.faults["tell"] += 1
        told = self.deaths[which % len(self.deaths)]
        wake = self.oracle.take_over(
            told.wake, process_id=told.process_id, max_attempts=MAX_ATTEMPTS
        )
        self.bag += [wake] if wake else []

    @precondition(lambda self: any(worker.watch for worker in self.workers))
    @rule(number=WORKER)
    def renew(self, number: int) -> None:
        self.workers[number].renew()

    @_while("drain", lambda self: True)
    @rule(number=WORKER)
    def drain(self, number: int) -> None:
        self.faults["drain"] += 1
        self.workers[number].draining = True

    @_while("freeze", lambda self: self.bag)
    @rule(number=WORKER, statement=st.sampled_from(STATEMENTS), inline=st.booleans(), steps=STEPS)
    def freeze(self, number: int, statement: str, inline: bool, steps: int) -> None:
        """SIGSTOP for longer than a lease; others take over and come some way; then it wakes up."""
        self.faults["freeze"] += 1
        frozen, other = self.workers[number], self.workers[1 - number]
        self._bring(frozen, statement, inline=inline)
        self.time_passes(21)
        self._step(self.sweeper, A_WHOLE_MESSAGE)
        self.sweep(A_WHOLE_MESSAGE)
        self._step(other, A_WHOLE_MESSAGE)
        if self.bag:
            other.take(self.bag.pop(), inline=True)
            self._step(other, steps)
        self._step(frozen, A_WHOLE_MESSAGE)

    # -- the sweep

    @precondition(lambda self: self.sweeper.is_idle)
    @rule(steps=STEPS)
    def sweep(self, steps: int) -> None:
        self.sweeper.start()
        self._step(self.sweeper, steps)

    @precondition(lambda self: not self.sweeper.is_idle)
    @rule(steps=STEPS)
    def step_sweep(self, steps: int) -> None:
        self._step(self.sweeper, steps)

    @precondition(lambda self: not self.sweeper.is_idle)
    @rule(after=st.booleans())
    def crash_sweep(self, after: bool) -> None:
        self.sweeper.crash(after=after)

    # -- time

    @rule(seconds=st.sampled_from([1, 6, 21, 21]))
    def time_passes(self, seconds: int) -> None:
        self.time.passes(seconds * SECOND)

    # Set forth and back between two sweeps leaves no trace to see it by: a lease of that time runs on.
    @_while("clock", lambda self: self.set_after_sweep != self.stores.tables.swept_at)
    @rule(seconds=st.sampled_from([-3600, -10, 10, 3600]))
    def clock_is_set(self, seconds: int) -> None:
        self.faults["clock"] += 1
        self.set_after_sweep = self.stores.tables.swept_at
        self.time.is_set(seconds * SECOND)

    @_while("compact", lambda self: self.stores.tables.sessions)
    @rule(which=st.integers(min_value=0, max_value=2), seconds=st.sampled_from([2, 60]))
    def compact(self, which: int, seconds: int) -> None:
        """Somebody holds a session's compaction lock for a while."""
        self.faults["compact"] += 1
        sessions = list(self.stores.tables.sessions.values())
        sessions[which % len(sessions)].lock_expires_at = self.time.store_now() + seconds * SECOND

    # -- what must hold

    @invariant()
    def promises_hold(self) -> None:
        check_all(self.oracle)
        self._raise()

    def teardown(self) -> None:
        """No more faults: deliver, step, and let time pass, until everything is at rest."""
        try:
            if not self.oracle.faults:
                self._come_to_rest()
                check_all(self.oracle)
                check_done(self.oracle)
                self._raise()
        finally:
            for process in (*self.workers, self.sweeper):
                while not process.is_idle:
                    process.crash(after=False)

    def _come_to_rest(self) -> None:
        for _ in range(ROUNDS):
            self._step(self.sweeper, A_WHOLE_MESSAGE)
            for worker in self.workers:
                worker.renew()
                self._step(worker, A_WHOLE_MESSAGE)
            while self.bag:
                self.workers[0].take(self.bag.pop(0), inline=True)
                self._step(self.workers[0], A_WHOLE_MESSAGE)
            if not self.stores.tables.unfinished:
                return
            self.time.passes(SWEEP.interval)
            self.sweeper.start()

    def _bring(self, worker: Worker, statement: str, *, inline: bool) -> None:
        while not worker.stands_before(statement) and (self.bag or not worker.is_idle):
            if worker.is_idle:
                worker.take(self.bag.pop(0), inline=inline)
            self._step(worker, 1)

    def _step(self, process: Worker | Sweeper, steps: int) -> None:
        process.go(steps)
        if process.failure:
            raise process.failure

    def _raise(self) -> None:
        assert not self.oracle.faults, self.oracle.faults[0]


def _turn_id(number: int) -> TurnId:
    return request(number, 0, 1, None).turn_id
