"""Our processes: what each is called, how it is started, how many there are.

The one list behind `turnchain up` and `docker-compose.yml`; a test holds the two together. The servers are not in it:
they are not ours, and in production somebody else's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Final, Literal

from turnchain.orchestrator_core import wire

Pool = Literal["threads", "prefork"]

THREADS: Final = 16
"""Stages that one worker with threads runs at once: they wait for models most of the time."""
_CELERY: Final = ("-m", "celery", "--quiet", "-A", "turnchain.workers.app")
# Neighbours are of no use to us, and looking for them delays the start by a second.
_ALONE: Final = ("--without-mingle", "--without-gossip")


@dataclass(frozen=True, slots=True)
class Process:
    """One row of the table."""

    name: str
    """Also its service in the compose file, and what a worker's Celery node is called."""
    arguments: tuple[str, ...]
    """What a Python interpreter is given, but for a worker's own name."""
    is_worker: bool = False
    count: int = 1
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    """On top of the settings that all of them share."""

    def command(self, name: str | None = None) -> tuple[str, ...]:
        """What a Python interpreter is given; with a name, for one of several workers on a host.

        Names stay the same over restarts: they are labels of Flower's metrics.
        """
        node = ("--hostname", f"{name or self.name}@%h") if self.is_worker else ()
        return (*self.arguments, *node)

    @property
    def names(self) -> list[str]:
        """Of each that runs on one host: numbered from 1 where there may be several."""
        several = self.name == WORKER
        return [
            f"{self.name}{number}" if several else self.name for number in range(1, self.count + 1)
        ]


WORKER: Final = "worker"
CONTROL: Final = "control"
BEAT: Final = "beat"
FLOWER: Final = "flower"


def processes(
    *,
    workers: int = 2,
    pool: Pool = "threads",
    concurrency: int = THREADS,
    queues: tuple[str, ...] = (wire.TURNS_QUEUE,),
    flower_address: str = "127.0.0.1",
    flower_port: int = 5555,
) -> list[Process]:
    """The table. `queues` are those of the stages."""
    return [
        Process(WORKER, _worker(queues, pool, concurrency), is_worker=True, count=workers),
        # Takeovers and sweeps must not stand behind dispatches that wait for a model.
        Process(
            CONTROL,
            _worker((wire.CONTROL_QUEUE, wire.MAINTENANCE_QUEUE), "threads", 2),
            is_worker=True,
        ),
        # One entry, due every few seconds: nothing is lost with what a schedule file would remember.
        Process(BEAT, (*_CELERY, "beat", "--scheduler", "celery.beat:Scheduler")),
        Process(
            FLOWER,
            (*_CELERY, "flower"),
            environ={
                "FLOWER_CONF": str(files("turnchain.workers") / "flowerconfig.py"),
                "FLOWER_ADDRESS": flower_address,
                "FLOWER_PORT": str(flower_port),
            },
        ),
    ]


def _worker(queues: tuple[str, ...], pool: Pool, concurrency: int) -> tuple[str, ...]:
    return (
        *(*_CELERY, "worker", *_ALONE),
        *("--queues", ",".join(queues)),
        *("--pool", pool),
        *("--concurrency", str(concurrency)),
    )
