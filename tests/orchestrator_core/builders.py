"""What the core's tests start from: a clock and a watch that obey, and a world of memory stores around them."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from turnchain.orchestrator_core.callbacks import END, IntentContext, RouteContext
from turnchain.orchestrator_core.contracts import (
    CheckpointRecord,
    Claim,
    Owner,
    Provider,
    Refusal,
    SessionKey,
    Stage,
    SupervisorRun,
    TurnEvent,
    TurnId,
    TurnRecord,
    TurnResult,
    Wake,
)
from turnchain.orchestrator_core.definition import Intent, Orchestrator
from turnchain.orchestrator_core.engine import ENGINE_LEASE, Engine, InPlaceLeases
from turnchain.orchestrator_core.environment import Environment, Policy
from turnchain.orchestrator_core.invoke import Invoker
from turnchain.orchestrator_core.ports import Watch
from turnchain.orchestrator_core.registry import Registry
from turnchain.orchestrator_core.requests import build_request, request_hash
from turnchain.orchestrator_core.results import result_of
from turnchain.orchestrator_core.runner import Passage, run_stage
from turnchain.orchestrator_core.turn_context import TurnContext
from turnchain.stores import memory
from turnchain.stores.memory import MemoryLedger, Tables
from turnchain.stores.memory.listening import MemoryListener

SECOND = timedelta(seconds=1)

POLICY = Policy(max_in_flight=100)

HISTORY5 = [{"role": "user", "content": f"message {n}"} for n in range(5)]


class Crash(BaseException):
    """The process dies here: nothing that a `try` of ours may outlive."""


class FakeClock:
    """One time for the process and the stores, moved by the test alone."""

    def __init__(self) -> None:
        self.instant = datetime(2026, 1, 1, tzinfo=UTC)
        self.steady = timedelta(0)

    def now(self) -> datetime:
        return self.instant

    def elapsed(self) -> timedelta:
        return self.steady

    def moves(self, by: timedelta) -> None:
        self.instant += by
        self.steady += by


class FakeWatch:
    """`Watch` that lets everything pass until it is told to stop, from so many looks on."""

    def __init__(self) -> None:
        self.looks = 0
        self.stop: type[BaseException] | None = None
        self.stops_after = 0

    def stops(self, reason: type[BaseException], *, after: int = 0) -> None:
        """Raise `reason` from the look after the next `after` ones on."""
        self.stop, self.stops_after = reason, self.looks + after

    def check(self) -> None:
        self.looks += 1
        if self.stop and self.looks > self.stops_after:
            raise self.stop

    def check_call(self) -> None:
        self.check()


class FakeLeases:
    """`Leases` of one process, whose claims all look at one watch."""

    process_id = "test:1"

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.serial = 0
        self.kept: list[str] = []
        """Owners whose leases are being kept."""

    def new_owner(self) -> str:
        self.serial += 1
        return f"{self.process_id}/{self.serial}"

    def begin(self, claim: Claim, granted: timedelta) -> Watch:
        self.kept.append(claim.lease_owner)
        return self.watch

    def go_on(self, claim: Claim) -> None:
        assert claim.lease_owner in self.kept

    def end(self, claim: Claim) -> None:
        self.kept.remove(claim.lease_owner)


class Published:
    """`Publisher` that keeps what it was given."""

    def __init__(self) -> None:
        self.wakes: list[Wake] = []

    def publish(self, wakes: Any) -> None:
        self.wakes += wakes


@dataclass
class Meantime:
    """What happens while somebody listens for a turn: a test never waits."""

    passes: Callable[[timedelta], object]


class PatientListener(MemoryListener):
    """A listener that lets the world go on instead of waiting."""

    def __init__(self, meantime: Meantime) -> None:
        super().__init__()
        self.meantime = meantime

    def wait(self, timeout: timedelta) -> frozenset[TurnId]:
        self.meantime.passes(timeout)
        return super().wait(timedelta(0))


class PatientLedger(MemoryLedger):
    """The memory ledger, but for its listeners."""

    def __init__(self, tables: Tables, meantime: Meantime) -> None:
        super().__init__(tables)
        self.meantime = meantime

    @contextmanager
    def listen(self) -> Generator[MemoryListener]:
        yield PatientListener(self.meantime)


class World:
    """Memory stores, a clock, and one process that serves these definitions."""

    def __init__(
        self,
        *definitions: Orchestrator,
        beside: World | None = None,
        policy: Policy = POLICY,
    ) -> None:
        """`beside` another one: a second process on the same stores."""
        self.clock = beside.clock if beside else FakeClock()
        self.meantime = beside.meantime if beside else Meantime(self.clock.moves)
        self.stores = beside.stores if beside else memory.connect(self.clock.now)
        self.ledger = PatientLedger(self.stores.tables, self.meantime)
        self.ids = beside.ids if beside else iter(range(1, 1_000_000))
        self.name = definitions[0].name
        self.watch = FakeWatch()
        self.leases = FakeLeases(self.watch)
        self.published = Published()
        self.env = Environment(
            ledger=self.ledger,
            checkpoints=self.stores.checkpoints,
            snapshots=self.stores.snapshots,
            registry=Registry(definitions),
            clock=self.clock,
            leases=self.leases,
            invoker=Invoker(),
            new_id=self.new_id,
            policy=policy,
        )

    def new_id(self) -> TurnId:
        return TurnId(str(UUID(int=next(self.ids))))

    def serving(self, *definitions: Orchestrator) -> World:
        """Another process, with other definitions, on the same stores."""
        return World(*definitions, beside=self, policy=self.env.policy)

    def using(self, **ports: Any) -> None:
        """Put doubles into the environment."""
        self.env = replace(self.env, **ports)

    def keeping(self, ledger: type[PatientLedger]) -> None:
        """Put a double of the ledger into the environment."""
        self.using(ledger=ledger(self.stores.tables, self.meantime))

    # -- in place

    @property
    def engine(self) -> Engine:
        """An engine on these stores; each has a process of its own."""
        leases = InPlaceLeases(self.env.ledger, self.clock, f"engine:{next(self.ids)}")
        policy = replace(self.env.policy, lease=ENGINE_LEASE)
        return Engine(replace(self.env, leases=leases, policy=policy), self.published)

    def execute(self, input: Any = "hello", *, session: str = "s1", **arguments: Any) -> TurnResult:
        """One turn on an engine."""
        given: dict[str, Any] = {"history": [], **arguments}
        return self.engine.execute(self.name, input, session_id=session, **given)

    def crash(self, input: Any = "hello", *, session: str = "s1", **arguments: Any) -> None:
        """A turn whose engine dies on the way."""
        try:
            self.execute(input, session=session, **arguments)
        except Crash:
            return
        raise AssertionError("the engine lived")

    def resume(self, session: str = "s1", **arguments: Any) -> TurnResult | None:
        return self.engine.resume(self.name, session, **arguments)

    # -- stage by stage

    def accepted(self, input: Any = "hello", *, session: str = "s1", **arguments: Any) -> TurnId:
        """A queued turn, for workers."""
        given: dict[str, Any] = {"history": [], **arguments}
        request = build_request(
            self.name, input, turn_id=self.new_id(), session_id=session, **given
        )
        self.ledger.accept(request, request_hash=request_hash(request))
        return request.turn_id

    def admitted(self, input: Any = "hello", **arguments: Any) -> Wake:
        """A turn that is ready at `load`."""
        turn_id = self.accepted(input, **arguments)
        wake = self.ledger.admit_turn(turn_id)
        assert wake is not None
        return wake

    def ready(self, stage: Stage, input: Any = "hello", **arguments: Any) -> Wake:
        """A turn that is ready at `stage`, having passed those before."""
        wake = self.admitted(input, **arguments)
        while wake.stage is not stage:
            following = self.run(wake).following
            assert following is not None
            wake = following
        return wake

    def at(self, stage: Stage, input: Any = "hello", **arguments: Any) -> TurnContext:
        """A turn inside `stage`, as the runner would give it to the stage."""
        return self.inside(self.ready(stage, input, **arguments))

    def inside(self, wake: Wake) -> TurnContext:
        """The turn of this wake, claimed."""
        claim = self.ledger.claim(wake, self.leases.new_owner(), self.env.policy.lease)
        assert isinstance(claim, Claim), claim
        definition = self.env.registry.get(self.name)
        return TurnContext(
            claim=claim,
            definition=definition,
            signature=self.signature,
            watch=self.watch,
            work=claim.work,
        )

    def run(self, wake: Wake) -> Passage:
        """One stage."""
        return run_stage(wake, self.env)

    def play(self, wake: Wake | None) -> list[Stage]:
        """The stages that are run from here on, until nothing of the turn is to be run."""
        stages: list[Stage] = []
        while wake is not None:
            stages.append(wake.stage)
            wake = self.run(wake).following
        return stages

    def drain(self) -> list[Wake]:
        """Time passes until every lease has run out and every wait is over; what a sweep would then publish."""
        self.clock.moves(timedelta(hours=1))
        wakes = self.ledger.take_over_expired(self.env.policy.max_attempts)
        taken = {wake.turn_id for wake in wakes}
        rewoken = self.ledger.rewake(timedelta(0), timedelta(0))
        return [*wakes, *(wake for wake in rewoken if wake.turn_id not in taken)]

    # -- how it stands

    @property
    def signature(self) -> str:
        return self.env.registry.signatures[self.name]

    def session(self, session: str = "s1") -> SessionKey:
        return SessionKey(orchestrator_name=self.name, session_id=session)

    def head(self, session: str = "s1") -> CheckpointRecord | None:
        return self.stores.checkpoints.load(self.session(session))

    def state(self, session: str = "s1") -> dict[str, Any]:
        head = self.head(session)
        assert head is not None
        return head.state

    def turn(self, wake: Wake | TurnId) -> TurnRecord:
        turn = self.ledger.get(wake.turn_id if isinstance(wake, Wake) else wake)
        assert turn is not None
        return turn

    def snapshot(self, wake: Wake | TurnContext) -> SupervisorRun | None:
        turn_id = wake.turn_id if isinstance(wake, Wake) else wake.claim.turn.turn_id
        return self.stores.snapshots.load(self.turn(turn_id).run_id)

    def result(self, wake: Wake | TurnId) -> TurnResult:
        (settled,) = self.ledger.settled([wake.turn_id if isinstance(wake, Wake) else wake])
        return result_of(settled)

    def events(self, turn: Wake | TurnResult) -> list[TurnEvent]:
        return self.ledger.events(TurnId(turn.turn_id))

    def event_names(self, turn: Wake | TurnResult) -> list[str]:
        """Types in order, without what all have in common."""
        return [event.type.removeprefix("orchestrator.") for event in self.events(turn)]

    def compacts(self, lasting: timedelta, session: str = "s1") -> None:
        """A compaction takes the session's lock."""
        row = self.stores.tables.sessions[self.session(session)]
        row.lock_expires_at = self.clock.now() + lasting


def refusal_of(passage: Passage) -> Refusal:
    assert passage.refusal is not None
    return passage.refusal


def code_of(result: TurnResult | None) -> str:
    """The code of what a turn failed with."""
    assert result is not None
    assert result.error is not None
    return result.error.code


def finished(result: TurnResult | None) -> TurnResult:
    """A turn that settled well, or else its error."""
    assert result is not None
    return result.raise_for_error()


def bump(ctx: IntentContext) -> dict[str, Any]:
    return {"count": ctx.state["count"] + 1, "lastInput": ctx.input}


def counter(**changes: Any) -> Orchestrator:
    """The counter fixture of [O 16]: one dispatch a turn, which counts."""
    given: dict[str, Any] = {
        "name": "counter",
        "state": {"count": 0},
        "intents": {"bump": Intent(run=bump, next=lambda _: END)},
        "route": lambda ctx: "bump" if ctx.iteration == 0 else END,
    }
    return Orchestrator(**{**given, **changes})


def walker(length: int, **changes: Any) -> Orchestrator:
    """An iterating orchestrator: `walk`, which notes its iteration, so many times, then END."""

    def walk(ctx: IntentContext) -> dict[str, Any]:
        return {"path": [*ctx.state["path"], ctx.iteration]}

    def route(ctx: RouteContext) -> str:
        return "walk" if ctx.iteration < length else END

    given: dict[str, Any] = {
        "name": "walker",
        "state": {"path": []},
        "intents": {"walk": walk},
        "route": route,
        "iterate": True,
    }
    return Orchestrator(**{**given, **changes})


def a_provider(name: str = "provider", **arguments: Any) -> Provider:
    return Provider(name=name, arguments=arguments)


def run_of(**fields: Any) -> SupervisorRun:
    """A fresh run of an iterating orchestrator."""
    given: dict[str, Any] = {
        "run_id": "run",
        "session": SessionKey(orchestrator_name="o", session_id="s"),
        "turn_index": 0,
        "signature": "s1:0",
        "input": "hello",
        "seed_state": {},
        "max_iterations": 10,
        "iterate": True,
    }
    return SupervisorRun(**{**given, **fields})


NOBODY = Owner()
