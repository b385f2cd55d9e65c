"""What really happened, by SQL: a test's own database, a history of every turn's row, and gates to hold writers at."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from time import monotonic
from typing import Any, LiteralString, TypeVar, cast

import psycopg
from psycopg import sql
from psycopg.rows import DictRow, dict_row

from tests.acceptance import shop
from turnchain import Turn

T = TypeVar("T")

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
    lease: float

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

    def attempts(self, turn: Turn) -> set[int]:
        """Every value that the turn's attempts had."""
        return {row["attempts"] for row in self.history(turn)}

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

    def wait_until_finished(self, turn: Turn, step: str) -> None:
        """Until a step is behind its result: cut inside, it would be in doubt, and rightly had again."""
        key = f"{turn.turn_id}:{step}"
        wait_for(
            lambda: self.rows(
                "SELECT FROM turnchain_steps WHERE effect_key = %s AND status = 'finished'", key
            ),
            10,
            f"the step {step}",
        )

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
