"""What the crash walk stands on: a floor with workers to start, freeze and kill, and the numbers to keep."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

import psycopg
import pytest
from celery import Celery

import turnchain
from tests.acceptance.database import Database, Gate, wait_for
from turnchain import SessionClient, Turn
from turnchain.examples.booking.fleet import QUEUES, Worker
from turnchain.orchestrator_core.contracts import STAGES, Stage, TurnId, Wake
from turnchain.tasks.chain import publish
from turnchain.workers.publishing import GuardedPublisher, producer_app

ROOT = Path(__file__).parents[2]
LAUNCH = ROOT / "workers" / "launch.py"

LEASE, SWEEP, REWAKE = 3.0, 1.0, 1.0
QUICK: Mapping[str, str] = {
    "TURNCHAIN_LEASE": str(LEASE),
    "TURNCHAIN_HOUSEKEEPING": "0.5",
    "TURNCHAIN_SWEEP_INTERVAL": str(SWEEP),
    "TURNCHAIN_REWAKE": str(REWAKE),
    "TURNCHAIN_HAND_BACK_GRACE": "1",
}
"""The crash walk's own numbers, so that a recovery that takes its time still takes only seconds."""

SHIPPED: Mapping[str, str] = {}
"""The settings as they are shipped: lease 20 s, sweep 5 s, rewake 5 s, housekeeping 2 s."""

WHOLE_WORKER = LEASE + SWEEP + 2
"""[Numbers] A killed worker's turn goes on within this of a live worker, in seconds."""
CHILD = 2.0
"""[Numbers] A killed child's turn is claimed elsewhere within this."""
SWEPT = SWEEP + 2
"""What only waits for a sweep goes on within this."""
ONE_CLAIM_EACH = [(stage.value, 0) for stage in STAGES]
"""The claims of a staged turn that nothing happened to, as `Database.claims` tells them."""

both_modes = pytest.mark.parametrize("chain_mode", ["staged", "inline"])
"""Mark of a test of what holds however a turn comes from stage to stage."""
inline = pytest.mark.parametrize("chain_mode", ["inline"])
"""Mark of a test of turns that are called in place from stage to stage, under one claim. [ADR 0016]"""


def pools(*, inline: Sequence[str] = ()) -> pytest.MarkDecorator:
    """Mark of a test on each pool; inline, on those where that makes a difference."""
    ways = [(pool, "staged") for pool in ("prefork", "threads")]
    return pytest.mark.parametrize(
        ("pool", "chain_mode"), ways + [(pool, "inline") for pool in inline]
    )


@dataclass(slots=True)
class TiedWorker(Worker):
    """A worker that dies with the test's process, also when that is killed."""

    queues: str = QUEUES

    def start(self) -> None:
        """Start it; `wait_until_ready` waits."""
        tie = [sys.executable, "-I", "-S", str(LAUNCH), str(os.getpid()), str(int(signal.SIGKILL))]
        command = [sys.executable, "-m", "celery", "-A", self.app, "worker", "-Q", self.queues]
        command += ["-P", self.pool, "-c", str(self.concurrency), "-n", f"{self.name}@%h"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *tie,
                    "-1",
                    "-1",
                    *command,
                    "--without-mingle",
                    "--without-gossip",
                    *self.arguments,
                ],
                env=self.environ,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


@dataclass(slots=True)
class Floor:
    """A test's world: database, broker, doors, the workers that were started, and a producer."""

    database: Database
    broker_url: str
    key_prefix: str
    directory: Path
    environ: dict[str, str]
    stack: contextlib.ExitStack
    workers: list[Worker] = field(default_factory=list)
    client: SessionClient = field(init=False)
    app: Celery = field(init=False)

    def __post_init__(self) -> None:
        self.client = self._client()
        self.app = producer_app(self.broker_url, self.key_prefix, "turns")
        self.stack.callback(self.app.close)

    def start(
        self,
        name: str = "w1",
        pool: str = "prefork",
        concurrency: int = 2,
        settings: Mapping[str, object] = MappingProxyType({}),
        arguments: tuple[str, ...] = (),
        queues: str = QUEUES,
    ) -> Worker:
        """A running worker. `settings` are TURNCHAIN_ variables, in small letters and without that."""
        worker = self._spawn(name, pool, concurrency, settings, arguments, queues)
        self.wait_until_counted(worker)
        return worker

    def start_two(self, pool: str = "prefork", concurrency: int = 1) -> tuple[Worker, Worker]:
        """Workers w1 and w2, side by side, which takes little longer than one."""
        first, second = (self._spawn(name, pool, concurrency) for name in ("w1", "w2"))
        self.wait_until_counted(first)
        self.wait_until_counted(second)
        return first, second

    def _spawn(
        self,
        name: str,
        pool: str,
        concurrency: int,
        settings: Mapping[str, object] = MappingProxyType({}),
        arguments: tuple[str, ...] = (),
        queues: str = QUEUES,
    ) -> Worker:
        variables = {f"TURNCHAIN_{key.upper()}": str(value) for key, value in settings.items()}
        log = self.directory / f"{name}-{len(self.workers)}.log"
        environ = {**self.environ, **variables}
        worker = TiedWorker(
            name, environ, log, pool, concurrency, arguments=arguments, queues=queues
        )
        self.workers.append(worker)
        worker.start()
        self.stack.callback(self._end, worker)
        return worker

    @property
    def is_inline(self) -> bool:
        """Whether its workers call the next stage in place."""
        return self.environ["TURNCHAIN_CHAIN_MODE"] == "inline"

    @property
    def undisturbed(self) -> list[tuple[str, int]]:
        """The claims of a turn that nothing happened to, as `Database.claims` tells them."""
        return ONE_CLAIM_EACH[:1] if self.is_inline else ONE_CLAIM_EACH

    def outcome_gate(self) -> contextlib.AbstractContextManager[Gate]:
        """Hold whoever commits the outcome of a turn, before it commits."""
        return self.database.hand_over_gate("dispatch" if self.is_inline else "persist")

    def wait_until_counted(self, worker: Worker) -> None:
        """Wait until its slots are in the ledger."""
        worker.wait_until_ready()
        wait_for(
            lambda: self.slots(worker) >= worker.concurrency, 10, f"the slots of {worker.name}"
        )

    def slots(self, worker: Worker) -> int:
        """How many slots of this very worker the ledger counts."""
        pids = [str(pid) for pid in (worker.running.pid, *worker.children())]
        return int(
            self.database.value(
                "SELECT coalesce(sum(slots), 0) FROM turnchain_processes "
                "WHERE substring(process_id FROM ':(\\d+)$') = ANY (%s)",
                pids,
            )
        )

    def enqueue(self, session: str, plan: Sequence[str] = ("work",), **arguments: Any) -> Turn:
        """Accept a turn that dispatches these intents, and wake a worker."""
        return self.client.enqueue("walk", **self._asked(session, plan, arguments))

    def accept(self, session: str, plan: Sequence[str] = ("work",), **arguments: Any) -> Turn:
        """Accept a turn and tell nobody: on a connection of one's own that cannot say when it commits."""
        with psycopg.connect(self.database.url) as connection:
            return self.client.enqueue(
                "walk", connection=connection, **self._asked(session, plan, arguments)
            )

    def at_the_door(self, session: str) -> Turn:
        """A turn whose dispatch has begun and waits."""
        self.close_door(f"work-{session}-0")
        turn = self.enqueue(session)
        wait_for(lambda: self.database.effects(turn) == ["0:work:before"], 10, "the door")
        return turn

    def publish(self, turn: Turn, stage: str, fence: int = 0) -> None:
        """Send a wake-up call, whether it is due or not."""
        publish(self.app, Wake(turn_id=TurnId(turn.turn_id), stage=Stage(stage), fence=fence))

    def worker_of(self, pid: int) -> Worker:
        """Whose pool process that is."""
        return next(each for each in self.workers if pid in (each.running.pid, *each.children()))

    def kill(self, pid: int) -> datetime:
        """SIGKILL a prefork child, or the whole worker where its threads are the pool; when it was, by the database."""
        killed_at = self.database.now()
        worker = self.worker_of(pid)
        if pid == worker.running.pid:
            worker.kill()
        else:
            os.kill(pid, signal.SIGKILL)
        return killed_at

    def close_door(self, name: str) -> None:
        """Hold whoever comes to this door of the shop."""
        (self.directory / "doors" / name).touch()

    def open_door(self, name: str) -> None:
        """Let them go on."""
        (self.directory / "doors" / name).unlink(missing_ok=True)

    def logs(self) -> str:
        """All that the workers have printed."""
        return "".join(path.read_text(errors="replace") for path in self.directory.glob("*.log"))

    def assert_settled_once(self, turn: Turn, session: str, index: int = 0) -> None:
        """One checkpoint, one final event, one outcome, and nothing left to do. [DESIGN 1.2]"""
        wait_for(lambda: self.database.stands(turn, stage="done"), 10, "done")
        assert self.database.turn(turn)["status"] == "awaiting-input"
        assert self.database.events(turn).count("orchestrator.turn.awaiting-input") == 1
        assert self.database.events(turn).count("orchestrator.checkpoint.persisted") == 1
        assert self.database.checkpoints(session)[-1:] == [index]
        outcomes = "SELECT count(*) FROM turnchain_outcomes WHERE turn_id = %s"
        assert self.database.value(outcomes, turn.turn_id) == 1

    def _asked(
        self, session: str, plan: Sequence[str], arguments: dict[str, Any]
    ) -> dict[str, Any]:
        given = {"plan": list(plan), **arguments.pop("input", {})}
        return {"input": given, "session_id": session, "history": [], **arguments}

    def _client(self) -> SessionClient:
        client = turnchain.connect(
            self.database.url,
            broker=self.broker_url,
            key_prefix=self.key_prefix,
            orchestrators=["walk"],
        )
        self.stack.callback(close_client, client)
        return client

    def _end(self, worker: Worker) -> None:
        for path in (self.directory / "doors").iterdir():
            path.unlink()
        with contextlib.suppress(ProcessLookupError):
            if worker.running.poll() is None:
                thaw(worker)
                os.killpg(worker.running.pid, signal.SIGKILL)
        worker.running.wait()


def close_client(client: SessionClient) -> None:
    """Close what a client opened: a process keeps its one client to its end, a test must not."""
    ledger: Any = client._ledger
    ledger._connections.close()
    publisher: Any = client._publisher
    assert isinstance(publisher, GuardedPublisher)
    publisher._app.close()


def freeze(worker: Worker) -> None:
    """SIGSTOP the worker and its children."""
    _signal(worker, signal.SIGSTOP)


def thaw(worker: Worker) -> None:
    """SIGCONT them."""
    _signal(worker, signal.SIGCONT)


def _signal(worker: Worker, number: signal.Signals) -> None:
    for pid in [worker.running.pid, *worker.children()]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def effects_of(iterations: int, intent: str = "work") -> list[str]:
    """What so many iterations of an intent leave when nothing is done twice."""
    return [f"{each}:{intent}:{when}" for each in range(iterations) for when in ("before", "after")]
