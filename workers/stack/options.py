"""What a stack is to be, and what can be refused before anything is started."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from turnchain.orchestrator_core import wire
from turnchain.orchestrator_core.errors import SettingsError
from turnchain.workers.embedded import from_usual, refusal
from turnchain.workers.process_table import FLOWER, THREADS, Pool, Process, processes
from turnchain.workers.settings import Settings

USUAL_PORTS: Final = {"postgres": 5432, "redis": 6379, "flower": 5555}


@dataclass(frozen=True, slots=True)
class StackOptions:
    """What is to run, and where."""

    directory: Path
    """Made where it is missing. The next run finds its data there."""
    workers: int = 2
    pool: Pool = "threads"
    concurrency: int | None = None
    """Stages that one worker runs at once; by default 16 with threads, and one a processor with prefork."""
    postgres_port: int | None = None
    """None is the usual one, or the next that is free; so it is for the other two."""
    redis_port: int | None = None
    flower_port: int | None = None
    flower: bool = True
    database: str = "postgres"
    """Made where it is missing, and given the schema."""
    durable: bool = True
    """False for what is thrown away afterwards: nothing is synced to disk."""
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    """For our processes. The servers' URLs are the stack's own, whatever is given here."""

    def check(self) -> Settings:
        """The processes' settings.

        Raises:
            SettingsError: one of them is wrong, Flower is not installed, or a port cannot be had.
        """
        if self.flower and importlib.util.find_spec("flower") is None:
            raise SettingsError(
                "Flower is not installed: pip install 'turnchain[flower]', or go without it (--no-flower)"
            )
        given = {
            name: port
            for name, port in (
                ("postgres", self.postgres_port),
                ("redis", self.redis_port),
                ("flower", self.flower_port if self.flower else None),
            )
            if port is not None
        }
        for name, port in given.items():
            reason = refusal(port)
            if list(given.values()).count(port) > 1:
                reason = "it is given twice"
            if reason:
                raise SettingsError(
                    f"port {port} for {name} is not to be had ({reason}): choose another, or name none for a free one"
                )
        return Settings.from_env(self.environment("postgresql://", "redis://"))

    def environment(self, postgres_url: str, broker_url: str) -> dict[str, str]:
        """Of every process. libpq would let PG* change where it connects to, and how."""
        environ = {
            **{name: value for name, value in self.environ.items() if not name.startswith("PG")},
            "TURNCHAIN_POSTGRES_URL": postgres_url,
            "TURNCHAIN_BROKER_URL": broker_url,
            "PYTHONUNBUFFERED": "1",
        }
        # Eight lines from every worker that root starts; whoever is root here has decided so.
        environ.setdefault("PYTHONWARNINGS", "ignore:You're running the worker with superuser")
        return environ

    def ports(self, name: str) -> Iterable[int]:
        """The one that was asked for, else those to be tried."""
        given: int | None = getattr(self, f"{name}_port")
        return [given] if given is not None else from_usual(USUAL_PORTS[name])

    @property
    def width(self) -> int:
        """Stages that one worker runs at once."""
        return self.concurrency or (THREADS if self.pool == "threads" else _processors())

    @property
    def connections(self) -> int:
        """How many Postgres must admit: a slot has two in our pools and one in the author's code."""
        return 100 + 3 * self.workers * self.width + 8 * (self.workers + 1)

    def table(self, settings: Settings) -> list[Process]:
        """The processes but for Flower, whose port is known only when it runs."""
        stages = (wire.TURNS_QUEUE, *sorted(set(settings.stage_queues.values()) - {*wire.QUEUES}))
        rows = processes(
            workers=self.workers, pool=self.pool, concurrency=self.width, queues=stages
        )
        return [row for row in rows if row.name != FLOWER]

    def flower_row(self, port: int) -> Process:
        """Flower on this port."""
        return next(row for row in processes(flower_port=port) if row.name == FLOWER)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
