"""The services outside: a table in the same database that records every effect, so that doubled ones can be counted."""

from __future__ import annotations

import os
import threading
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

SCHEMA = """
CREATE TABLE IF NOT EXISTS booking_effects (
    effect_key text NOT NULL,  -- not unique on purpose: a second row is what must never be
    service text NOT NULL,
    method text NOT NULL,
    results jsonb NOT NULL,
    happened_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX IF NOT EXISTS booking_effects_key ON booking_effects (effect_key);
CREATE TABLE IF NOT EXISTS booking_runs (
    run_id text NOT NULL,
    iteration integer NOT NULL,
    process_id integer NOT NULL,
    began_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX IF NOT EXISTS booking_runs_run ON booking_runs (run_id);
CREATE TABLE IF NOT EXISTS booking_expected (
    session_id text PRIMARY KEY,
    turns integer NOT NULL,
    state jsonb NOT NULL
);
"""

_local = threading.local()


def note_run(run_id: str, iteration: int) -> None:
    """Record that an intent began, before it does anything."""
    _connection().execute(
        "INSERT INTO booking_runs (run_id, iteration, process_id) VALUES (%s, %s, %s)",
        (run_id, iteration, os.getpid()),
    )


def call(
    effect_key: str, service: str, method: str, results: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The side effect: a booking is made, and its results are known."""
    _connection().execute(
        "INSERT INTO booking_effects (effect_key, service, method, results) VALUES (%s, %s, %s, %s)",
        (effect_key, service, method, Jsonb(results)),
    )
    return results


def look_up(effect_key: str) -> list[dict[str, Any]] | None:
    """What a call with this key has led to; None if it never happened."""
    row = (
        _connection()
        .execute("SELECT results FROM booking_effects WHERE effect_key = %s", (effect_key,))
        .fetchone()
    )
    return row[0] if row else None


def _connection() -> psycopg.Connection[Any]:
    """One connection per thread, made after the fork, since a connection must not cross one."""
    if getattr(_local, "pid", None) != os.getpid() or _local.connection.closed:
        _local.connection = psycopg.connect(os.environ["TURNCHAIN_POSTGRES_URL"], autocommit=True)
        _local.pid = os.getpid()
    return _local.connection
