"""The worker's side of `handwritten`: `celery -A benchmarks.contenders.handwritten_tasks worker`.

Safe to be delivered twice: the session's row says which iteration of which turn was saved last.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from benchmarks.contenders import peers
from benchmarks.work import step

TURN = "handwritten.turn"
CHANNEL = "handwritten_replies"

SCHEMA = """
CREATE TABLE IF NOT EXISTS handwritten_sessions (
    session_id text PRIMARY KEY,
    version integer NOT NULL,
    turn_id text NOT NULL,
    iteration integer NOT NULL,
    state jsonb NOT NULL
) WITH (fillfactor = 70);
CREATE TABLE IF NOT EXISTS handwritten_messages (
    session_id text NOT NULL,
    version integer NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (session_id, version)
);
"""
LOAD = "SELECT version, turn_id, iteration, state FROM handwritten_sessions WHERE session_id = %s"
SAVE = """
WITH session AS (
    INSERT INTO handwritten_sessions AS s (session_id, version, turn_id, iteration, state)
    VALUES (%(session)s, %(version)s + 1, %(turn)s, %(iteration)s, %(state)s)
    ON CONFLICT (session_id) DO UPDATE SET
        version = excluded.version, turn_id = excluded.turn_id, iteration = excluded.iteration,
        state = excluded.state
    WHERE s.version = %(version)s
    RETURNING version
),
message AS (
    INSERT INTO handwritten_messages (session_id, version, body)
    SELECT %(session)s, version, %(body)s FROM session
)
SELECT version, CASE WHEN %(reply)s::text IS NOT NULL THEN pg_notify('handwritten_replies', %(reply)s) END
FROM session
"""

_local = threading.local()


def turn(turn: str, session: str, says: str, iterations: int) -> None:
    """Every iteration is saved in one commit before the next begins; the last one carries the reply.

    Raises:
        RuntimeError: somebody else has written the session meanwhile.
    """
    connection = _connection()
    found = connection.execute(LOAD, (session,)).fetchone()
    version, last_turn, last_iteration, state = found or (0, "", 0, dict[str, Any]())
    begin = last_iteration + 1 if last_turn == turn else 0
    for iteration in range(begin, iterations):
        body = step(turn, iteration)
        state["said"] = says
        state["messages"] = state.get("messages", 0) + 1
        saved = connection.execute(
            SAVE,
            {
                "session": session,
                "version": version,
                "turn": turn,
                "iteration": iteration,
                "state": Jsonb(state),
                "body": body,
                "reply": f"{turn} {body}" if iteration == iterations - 1 else None,
            },
        ).fetchone()
        if saved is None:
            raise RuntimeError(f"session {session!r} was written by somebody else: try again")
        version = saved[0]


def _connection() -> psycopg.Connection[Any]:
    """One for each thread that runs tasks, kept; made by its first task, which is after the fork."""
    if getattr(_local, "connection", None) is None or _local.connection.closed:
        _local.connection = psycopg.connect(os.environ[peers.POSTGRES_VARIABLE], autocommit=True)
    return _local.connection


if peers.POSTGRES_VARIABLE in os.environ:
    app: Any = peers.worker_app("handwritten")
    app.task(turn, name=TURN)
