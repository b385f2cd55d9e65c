"""What operators ask reads few blocks of many, whatever the tables hold."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from tests.servers import database
from turnchain.orchestrator_core.contracts import (
    STAGES,
    SessionFilter,
    SessionPage,
    TurnFacts,
    TurnFilter,
    TurnPage,
    TurnStatus,
)
from turnchain.orchestrator_core.errors import StoreUnavailableError
from turnchain.orchestrator_core.ports import Inspection
from turnchain.stores.conformance.exam import Given, id_of
from turnchain.stores.postgres import PostgresStores, connect
from turnchain.stores.postgres.connection import Step
from turnchain.stores.postgres.statements import STATEMENTS

SMALL, LARGE = 20_000, 1_000_000
PAGE = 20
BLOCKS = 400
"""Most that one question may read: some for each row of the page, and nothing for the rest."""
QUEUES = dict.fromkeys(STAGES, "turns")
BIG = ("turnchain_turns", "turnchain_sessions")

Question = Callable[[Inspection], TurnPage | SessionPage | TurnFacts | None]


def turns(**wanted: Any) -> Question:
    return lambda inspection: inspection.turns(TurnFilter(**wanted), PAGE)


def sessions(**wanted: Any) -> Question:
    return lambda inspection: inspection.sessions(SessionFilter(**wanted), PAGE)


def facts(turn: str) -> Question:
    return lambda inspection: inspection.facts(id_of(turn))


QUESTIONS: dict[str, Question] = {
    "turns": turns(),
    "a page in the middle": turns(before=SMALL // 2),
    "turns of most": turns(orchestrator_name="common"),
    "turns of few": turns(orchestrator_name="rare"),
    "turns of nobody": turns(orchestrator_name="nobody"),
    "a session": turns(session_id="s7"),
    "a session of one": turns(session_id="s7", orchestrator_name="common"),
    **{f"{status} turns": turns(status=status) for status in TurnStatus},
    # In order of acceptance, what is queued stands before what was answered, and is passed over.
    "awaiting-input turns": turns(status=TurnStatus.AWAITING_INPUT, before=SMALL),
    "dead turns of few": turns(status=TurnStatus.DEAD, orchestrator_name="rare"),
    "failed turns of few": turns(status=TurnStatus.FAILED, orchestrator_name="rare"),
    "stuck turns": turns(stuck_on=QUEUES),
    "sessions": sessions(),
    "sessions of few": sessions(orchestrator_name="rare"),
    "sessions of one id": sessions(session_id="s7"),
    "a queued turn": facts("last"),
    "a done turn": facts("done"),
}


@dataclass
class Reads:
    """What one question cost."""

    blocks: int
    scanned: list[str]
    """Tables that were read whole."""


@dataclass
class Crowd:
    """A ledger full of turns, and the plans of what is asked of it."""

    stores: PostgresStores
    direct: psycopg.Connection

    def ask(self, question: Question, monkeypatch: pytest.MonkeyPatch) -> Reads:
        """The question's cost; its statements are carried out once more under EXPLAIN."""
        asked: list[Step] = []
        connections = self.stores.connections
        run_all = connections.run_all

        def spy(steps: Sequence[Step], *, durable: bool) -> list[list[Any]]:
            asked.extend(steps)
            return run_all(steps, durable=durable)

        monkeypatch.setattr(connections, "run_all", spy)
        question(self.stores.inspection)
        monkeypatch.undo()
        assert asked
        reads = Reads(0, [])
        with self.direct.transaction():
            for name, params in asked:
                if name == "keep_to_indexes":
                    self.direct.execute(STATEMENTS[name])
                    continue
                plan = self._plan(name, params)
                reads.blocks += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
                reads.scanned += [
                    node["Relation Name"]
                    for node in _nodes(plan)
                    if node["Node Type"] == "Seq Scan" and node["Relation Name"] in BIG
                ]
        return reads

    def _plan(self, name: str, params: Any) -> dict[str, Any]:
        explain = f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {STATEMENTS[name]}"
        row = self.direct.execute(explain.encode(), params).fetchone()
        assert row is not None
        return row[0][0]["Plan"]


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for below in plan.get("Plans", []):
        yield from _nodes(below)


def fill(direct: psycopg.Connection, many: int) -> None:
    """`many` done turns of five turns a session, a deep queue and 50 that run; none of it analysed.

    The rare orchestrator had the first turns of all; every hundredth turn failed, and one died.
    """
    # Statistics come some minutes after a burst; the plans must not wait for them.
    for table in BIG:
        direct.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)".encode())
    deep = max(SMALL, many // 10)
    columns = "turn_id, orchestrator_name, session_id, run_id, request_hash"
    name = f"CASE WHEN n <= {many} / 100 THEN 'rare' WHEN n % 50 = 0 THEN 'some' ELSE 'common' END"
    direct.execute(
        f"INSERT INTO turnchain_turns ({columns}, status, stage, settled_at)"
        f" SELECT gen_random_uuid(), {name}, 's' || n % ({many} / 5), 'r', 'h',"
        " CASE WHEN n = 500 THEN 'dead' WHEN n % 100 = 0 THEN 'failed' ELSE 'awaiting-input' END,"
        f" 'done', now() FROM generate_series(1, {many}) AS n".encode()
    )
    direct.execute(
        "INSERT INTO turnchain_sessions (orchestrator_name, session_id, created_at)"
        " SELECT orchestrator_name, session_id, to_timestamp(min(seq)) FROM turnchain_turns GROUP BY 1, 2"
    )
    direct.execute(
        f"INSERT INTO turnchain_turns ({columns})"
        " SELECT gen_random_uuid(), 'common', 'q' || n % 500, 'r', 'h'"
        f" FROM generate_series(1, {deep}) AS n".encode()
    )
    direct.execute(
        f"INSERT INTO turnchain_turns ({columns}, status, stage, lease_owner, lease_expires_at)"
        " SELECT gen_random_uuid(), 'common', 'l' || n, 'r', 'h', 'running', 'dispatch', 'host:1/1',"
        " now() + interval '1 hour' FROM generate_series(1, 50) AS n".encode()
    )
    rename = "UPDATE turnchain_turns SET turn_id = %s WHERE seq = %s"
    direct.execute(rename, [id_of("done"), 500])
    direct.execute(rename, [id_of("last"), many + deep])


def workers(direct: psycopg.Connection, *served: str) -> None:
    """Twenty live ones, for as long as a heartbeat counts."""
    direct.execute("DELETE FROM turnchain_processes")
    direct.execute(
        "INSERT INTO turnchain_processes (process_id, slots, queues, signatures, draining)"
        " SELECT 'host:' || n, 2, '[\"turns\"]', %s, false FROM generate_series(1, 20) AS n",
        [Jsonb(dict.fromkeys(served, "sig"))],
    )


@pytest.fixture(scope="module", params=[SMALL, pytest.param(LARGE, marks=pytest.mark.long)])
def crowd(request: pytest.FixtureRequest, postgres_url: str, _template: str) -> Generator[Crowd]:
    with database(postgres_url, template=_template) as url:
        stores = connect(url, max_size=1, read_only=True)
        with psycopg.connect(url, autocommit=True) as direct:
            fill(direct, request.param)
            yield Crowd(stores, direct)
        stores.close()


@pytest.mark.parametrize("asked", QUESTIONS)
def test_a_question_reads_few_blocks_of_many(
    crowd: Crowd, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    workers(crowd.direct, "common", "some")

    reads = crowd.ask(QUESTIONS[asked], monkeypatch)

    assert reads.scanned == []
    assert reads.blocks < BLOCKS


@pytest.mark.parametrize(
    ("served", "found"),
    [((), PAGE), (("rare",), PAGE), (("common", "some", "rare"), 0)],
    ids=["by nobody", "by others", "by all"],
)
def test_stuck_turns_are_found_among_many_and_told_from_many(
    crowd: Crowd, served: Sequence[str], found: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A deep queue that is served is a healthy one: it is not walked to find that out."""
    workers(crowd.direct, *served)
    stuck = TurnFilter(stuck_on=QUEUES)

    listed = crowd.stores.inspection.turns(stuck, PAGE).turns
    reads = crowd.ask(turns(stuck_on=QUEUES), monkeypatch)

    assert len(listed) == found
    assert reads.scanned == []
    assert reads.blocks < BLOCKS


def test_a_reader_writes_nothing(given: Given, database_url: str) -> None:
    given.accepted("t1")
    reader = connect(database_url, max_size=1, read_only=True)

    assert reader.inspection.facts(id_of("t1")) is not None
    with pytest.raises(StoreUnavailableError, match="read-only transaction"):
        Given(reader).accepted("t2")
    with pytest.raises(StoreUnavailableError, match="read-only transaction"):
        reader.ledger.admit()
    reader.close()


def test_a_reader_waits_for_nobody(
    given: Given, stores: PostgresStores, direct: psycopg.Connection
) -> None:
    given.accepted("t1")
    given.claimed("t2", session="s2")

    with direct.transaction():
        for table in ("turns", "sessions", "processes", "admission", "sweeps"):
            direct.execute(f"LOCK TABLE turnchain_{table} IN EXCLUSIVE MODE".encode())

        assert stores.inspection.facts(id_of("t1")) is not None
        assert len(stores.inspection.turns(TurnFilter(), 9).turns) == 2
        assert len(stores.inspection.turns(TurnFilter(stuck_on=QUEUES), 9).turns) == 2
        assert stores.inspection.sessions(SessionFilter(), 9).sessions == ()


def test_a_reader_has_one_connection_and_leaves_its_settings_as_they_were(
    given: Given, database_url: str, direct: psycopg.Connection
) -> None:
    given.accepted("t1")
    reader = connect(database_url, max_size=1, read_only=True)
    before = _connections(direct)

    for question in QUESTIONS.values():
        question(reader.inspection)

    assert _connections(direct) == before + 1
    with reader.connections._borrowed(durable=False) as connection:
        shown = connection.execute("SHOW enable_seqscan").fetchone()
    assert shown == {"enable_seqscan": "on"}
    reader.close()


def _connections(direct: psycopg.Connection) -> int:
    row = direct.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND backend_type = 'client backend'"
    ).fetchone()
    assert row is not None
    return row[0]
