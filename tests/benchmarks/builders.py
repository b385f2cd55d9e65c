"""Results with sensible defaults, of which a test names what it is about."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from benchmarks.counting import Counted, StatementShare
from benchmarks.growth import Grown
from benchmarks.recovery import Killed, Recovered
from benchmarks.results import Results
from benchmarks.rounds import Cell
from benchmarks.work import Shape


def cell(contender: str, rate: float, **given: Any) -> Cell:
    """One contender's number in one round."""
    values: dict[str, Any] = {
        "round": 1,
        "shape": Shape.SINGLE,
        "sessions": 8,
        "seconds": 4.0,
        "turns": int(rate * 4),
        "p50_ms": 1000 / rate,
        "p95_ms": 2000 / rate,
        "p99_ms": 3000 / rate,
        "cpu_ms": {"worker": 1.0, "postgres": 0.5, "redis": 0.25, "caller": 0.25},
        "foreign_load": 0.0,
    }
    return Cell(contender=contender, turns_per_second=rate, **{**values, **given})


def counted(contender: str, size: float, **given: Any) -> Counted:
    """A counting pass whose turns left so many bytes."""
    values: dict[str, Any] = {
        "shape": Shape.SINGLE,
        "turns": 300,
        "statements": 20.0,
        "commits": 20.0,
        "fsyncs": 2.0,
        "wal_bytes": 9000.0,
        "table_bytes": {"one": size / 2, "other": size / 2},
        "redis_commands": 30.0,
        "keys_left": ["_kombu.binding.turns"],
        "dearest": [StatementShare(query="SELECT 1", calls=1.0, milliseconds=0.1)],
    }
    return Counted(contender=contender, **{**values, **given})


def grown(contender: str, ms: list[float], **given: Any) -> Grown:
    """A long session with these milliseconds."""
    values: dict[str, Any] = {
        "shape": Shape.SINGLE,
        "sessions": 5,
        "bytes": {50: 100_000, 100: 200_000, 200: 400_000},
    }
    return Grown(contender=contender, ms=ms, **{**values, **given})


def recovered(contender: str, seconds: float | None, **given: Any) -> Recovered:
    """A worker's kill, and how long the answer took."""
    values: dict[str, Any] = {"killed": Killed.WORKER, "rerun": None if seconds is None else 1}
    return Recovered(contender=contender, seconds=seconds, **{**values, **given})


def results(**given: Any) -> Results:
    """A run."""
    return Results(
        began_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        machine={"processor": "a fast one", "cpus": 2, "memory_gb": 24.5, "fdatasync_ms": 0.1},
        versions={
            "commit": "abc1234",
            "celery": "5.7.0",
            "python": "3.11.7",
            "postgres_server": "18.6",
            "redis_server": "valkey 9.1",
        },
        settings={
            "pool": "prefork",
            "concurrency": 2,
            "rounds": 3,
            "seconds": 4.0,
            "events": False,
            "fsync": "on",
        },
        **given,
    )
