"""What the crash walk stands on: workers to kill, gates to hold them at, and SQL that says what really happened."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from pathlib import Path
from time import monotonic
from types import MappingProxyType
from typing import Any, LiteralString, TypeVar, cast

import psycopg
from celery import Celery
from psycopg import sql
from psycopg.rows import DictRow, dict_row

import turnchain
from examples.booking.fleet import Worker
from tests.acceptance import shop
from turnchain import SessionClient, Turn
from turnchain.orchestrator_core.contracts import Stage, TurnId, Wake
from turnchain.tasks.chain import publish
from turnchain.workers.publishing import GuardedPublisher, producer_app

T = TypeVar("T")

ROOT = Path(__file__).parents[2]

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

_SCHEMA = r"""
CREATE TABLE shop_rows (
    id bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT clock_timestamp(), turn_id uuid, status text,
    stage text, fence bigint, lease_owner text, attempts integer, takeovers integer
);
CREATE FUNCTION shop_log() RETURNS trigger LANGUAGE plpgsql AS $function$
BEGIN
    INSERT INTO shop_rows (turn_id, status, stage, fence, lease_owner, attempts, takeovers)
    VALUES (NEW.turn_id, NEW.status, NEW.stage, NEW.fence, NEW.lease_owner, NEW.attempts, NEW.takeovers);
    RETURN NULL;
END
$function$;
CREATE TRIGGER shop_log AFTER UPDATE ON turnchain_turns FOR EACH ROW WHEN (
    (OLD.status, OLD.stage, OLD.fence, OLD.lease_owner, OLD.attempts)
    IS DISTINCT FROM (NEW.status, NEW.stage, NEW.fence, NEW.lease_owner, NEW.attempts)
) EXECUTE FUNCTION shop_log();

CREATE FUNCTION shop_wait() RETURNS trigger LANGUAGE plpgsql AS $function$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(TG_ARGV[0]::integer, substring(
        coalesce(NEW.lease_owner, OLD.lease_owner) FROM ':(\d+)/')::integer);
    PERFORM pg_advisory_xact_lock(TG_ARGV[0]::integer, 0);
    RETURN NEW;
END
$function$;
"""
"""A history of every turn's row, and a place to wait for whoever writes it. Only tests' databases have them."""


def wait_for(look: Callable[[], T | None], within: float, what: str) -> T:
    """What `look` returns, once that is true.

    Raises:
        AssertionError: it was not within so many seconds.
    """
    deadline = monotonic() + within
    while True:
        found = look()
        if found:
            return found
        assert monotonic() < deadline, f"{what}: not within {within} s"
        threading.Event().wait(0.02)


@dataclass(slots=True)
class Database:
    """A test's own database: what the ledger says, and what the shop's callables left."""

    url: str
    lease: float = LEASE

    def prepare(self) -> None:
        """Add the evidence tables to a database that has Turnchain's schema."""
        self.execute(_SCHEMA + shop.SCHEMA)

    def execute(self, statement: str, *params: Any) -> None:
        """Carry out SQL."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.encode(), params or None)

    def rows(self, query: str, *params: Any) -> list[dict[str, Any]]:
        """All rows of a query."""
        connect = psycopg.Connection[DictRow].connect
        with connect(self.url, autocommit=True, row_factory=dict_row) as connection:
            return connection.execute(query.encode(), params).fetchall()

    def value(self, query: str, *params: Any) -> Any:
        """The first column of the first row."""
        found = self.rows(query, *params)
        return next(iter(found[0].values())) if found else None

    def turn(self, turn: Turn) -> dict[str, Any]:
        """The turn's row."""
        return self.rows("SELECT * FROM turnchain_turns WHERE turn_id = %s", turn.turn_id)[0]

    def stands(self, turn: Turn, **columns: Any) -> bool:
        """Whether the turn's row has these values."""
        row = self.turn(turn)
        return all(row[name] == value for name, value in columns.items())

    def history(self, turn: Turn) -> list[dict[str, Any]]:
        """Every state that the turn's row was in, oldest first."""
        return self.rows("SELECT * FROM shop_rows WHERE turn_id = %s ORDER BY id", turn.turn_id)

    def claims(self, turn: Turn) -> list[tuple[str, int]]:
        """Stage and fence of every claim that was granted on the turn, in order."""
        claims: list[tuple[str, int]] = []
        before = None
        for row in self.history(turn):
            if row["lease_owner"] and row["lease_owner"] != before:
                claims.append((row["stage"], row["fence"]))
            before = row["lease_owner"]
        return claims

    def visits(self, session: str, what: str = "%") -> list[dict[str, Any]]:
        """Which callables ran for a session, oldest first."""
        return self.rows(
            "SELECT * FROM shop_visits WHERE session = %s AND what LIKE %s ORDER BY id",
            session,
            what,
        )

    def visit(self, turn: Turn, session: str, what: str, iteration: int) -> dict[str, Any] | None:
        """The latest visit of what a turn's owner runs now; None if it has not come there."""
        owner = self.owner(turn)
        found = [
            row
            for row in self.visits(session, what)
            if row["iteration"] == iteration and row["pid"] == owner
        ]
        return found[-1] if found else None

    def effects(self, turn: Turn) -> list[str]:
        """Keys of the effects that the turn's steps had, in order, without the run's id."""
        found = self.rows(
            "SELECT effect_key FROM shop_effects WHERE starts_with(effect_key, %s) ORDER BY id",
            str(turn.turn_id),
        )
        return [row["effect_key"].partition(":")[2] for row in found]

    def events(self, turn: Turn) -> list[str]:
        """The types of the turn's events, in order."""
        found = self.rows(
            "SELECT type FROM turnchain_turn_events WHERE turn_id = %s ORDER BY seq", turn.turn_id
        )
        return [row["type"] for row in found]

    def checkpoints(self, session: str) -> list[int]:
        """Indexes of the session's checkpoints."""
        found = self.rows(
            "SELECT turn_index FROM turnchain_checkpoints WHERE session_id = %s ORDER BY 1", session
        )
        return [row["turn_index"] for row in found]

    @contextlib.contextmanager
    def gate(self, condition: str) -> Generator[Gate]:
        """Hold whoever updates a turn's row so that `condition` on OLD and NEW holds, inside that statement."""
        number = next(_numbers)
        name = sql.Identifier(f"shop_gate_{number}")
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(
                sql.SQL(
                    "CREATE TRIGGER {} BEFORE UPDATE ON turnchain_turns FOR EACH ROW WHEN ({}) "
                    "EXECUTE FUNCTION shop_wait({})"
                ).format(name, sql.SQL(cast("LiteralString", condition)), sql.Literal(str(number)))
            )
            connection.execute("SELECT pg_advisory_lock(%s, 0)", (number,))
            yield Gate(self, number, connection)

    def claim_gate(self, stage: str) -> contextlib.AbstractContextManager[Gate]:
        """Hold whoever claims a stage as its first attempt, before the claim commits."""
        return self.gate(
            "OLD.lease_owner IS NULL AND NEW.lease_owner IS NOT NULL "
            f"AND NEW.attempts = 0 AND NEW.stage = '{stage}'"
        )

    def hand_over_gate(self, stage: str) -> contextlib.AbstractContextManager[Gate]:
        """Hold whoever hands a stage over for the first time, before the hand-over commits."""
        return self.gate(f"OLD.stage = '{stage}' AND NEW.stage <> '{stage}' AND OLD.attempts = 0")

    def owner(self, turn: Turn) -> int | None:
        """The process that owns the turn."""
        owner = self.turn(turn)["lease_owner"]
        return int(owner.rpartition("/")[0].rpartition(":")[2]) if owner else None

    def now(self) -> datetime:
        """The database's clock, by which the rows' history is told."""
        return self.value("SELECT clock_timestamp()")

    def wait_until_claimed(self, turn: Turn, since: datetime, within: float) -> float:
        """Wait until the turn is claimed anew, and return how many seconds after `since` it was.

        Raises:
            AssertionError: it was not within so many seconds.
        """
        query = (
            "SELECT extract(epoch FROM min(at) - %s) FROM shop_rows "
            "WHERE turn_id = %s AND at > %s AND lease_owner IS NOT NULL"
        )
        seconds = wait_for(
            lambda: self.value(query, since, turn.turn_id, since), within + 1, "the next claim"
        )
        assert seconds <= within, f"claimed after {seconds} s instead of {within} s"
        return float(seconds)

    def somebody_waits(self, words: str = "") -> bool:
        """Whether a statement with these words waits for a lock."""
        query = (
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND wait_event_type = 'Lock' AND query LIKE %s"
        )
        return self.value(query, f"%{words}%") > 0

    def owners_have_renewed(self) -> bool:
        """Whether every owned lease ends later than the last sweep's grace does, so that its owner renewed it since."""
        return not self.value(
            "SELECT count(*) FROM turnchain_turns AS t, turnchain_sweeps AS s "
            "WHERE t.lease_owner IS NOT NULL AND (s.postmaster_started_at <> pg_postmaster_start_time() "
            "OR t.lease_expires_at < s.swept_at + %s * interval '1 s' + interval '0.1 s')",
            self.lease,
        )

    def terminate_waiting(self, words: str) -> bool:
        """End the server's side of connections whose statement has these words and waits for a lock."""
        return bool(
            self.rows(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
                "AND wait_event_type = 'Lock' AND query LIKE %s",
                f"%{words}%",
            )
        )

    def waiting_claims(self) -> int:
        """How many statements that claim a stage wait for a lock."""
        return self.value(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
            "AND wait_event_type = 'Lock' AND query LIKE '%%lease_owner IS NULL AND (parked IS NULL%%'"
        )

    @contextlib.contextmanager
    def held(self, statement: str, *params: Any) -> Generator[psycopg.Connection[Any]]:
        """Keep the locks of a statement for the length of the block, or until the connection's rollback."""
        with contextlib.closing(psycopg.connect(self.url)) as connection:
            connection.execute(statement.encode(), params or None)
            yield connection
            connection.rollback()


_numbers = count(1001)


@dataclass(slots=True)
class Gate:
    """A closed gate in the database; see `Database.gate`."""

    database: Database
    number: int
    connection: psycopg.Connection[Any]
    is_open: bool = False

    def waiting(self) -> int | None:
        """The process whose statement waits here."""
        return self.database.value(
            "SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND classid = %s AND objid <> 0 LIMIT 1",
            self.number,
        )

    def wait(self, within: float = 10) -> int:
        """Wait until somebody stands here, and return who."""
        return wait_for(self.waiting, within, "somebody at the gate")

    def freeze_and_let_commit(self) -> int:
        """SIGSTOP who waits here, and let the server carry out the statement; returns the frozen process."""
        pid = self.wait()
        os.kill(pid, signal.SIGSTOP)
        self.open()
        wait_for(lambda: not self.waiting(), 5, "the commit behind the gate")
        return pid

    def open(self) -> None:
        """Let through who waits and who comes."""
        if not self.is_open:
            self.is_open = True
            self.connection.execute("SELECT pg_advisory_unlock(%s, 0)", (self.number,))


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
    ) -> Worker:
        """A running worker. `settings` are TURNCHAIN_ variables, in small letters and without that."""
        variables = {f"TURNCHAIN_{key.upper()}": str(value) for key, value in settings.items()}
        log = self.directory / f"{name}-{len(self.workers)}.log"
        worker = Worker(name, {**self.environ, **variables}, log, pool, concurrency)
        self.workers.append(worker)
        worker.start()
        self.stack.callback(self._end, worker)
        self.wait_until_counted(worker)
        return worker

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
