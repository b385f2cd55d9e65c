"""One pool process: what it opens after the fork and closes at its end."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from celery import Celery

from turnchain.orchestrator_core.contracts import ProcessRecord
from turnchain.orchestrator_core.environment import Environment
from turnchain.orchestrator_core.invoke import Invoker
from turnchain.orchestrator_core.registry import Registry
from turnchain.stores.postgres import PostgresStores, connect
from turnchain.tasks.environment import TaskEnvironment, install_environment, remove_environment
from turnchain.tasks.identity import process_id
from turnchain.workers.clock import SystemClock, new_turn_id
from turnchain.workers.draining import Draining
from turnchain.workers.housekeeping import Housekeeping
from turnchain.workers.leases import HeldLeases
from turnchain.workers.publishing import GuardedPublisher
from turnchain.workers.settings import Settings

log = logging.getLogger("turnchain.workers")


@dataclass(slots=True)
class PoolProcess:
    """The running parts of one pool process."""

    stores: PostgresStores
    invoker: Invoker
    housekeeping: Housekeeping

    def stop(self) -> None:
        """Stop the thread, withdraw the slots, close what was opened. Calling it twice is safe."""
        self.housekeeping.stop()
        remove_environment()
        self.invoker.close()
        self.stores.close()


def start(
    app: Celery,
    settings: Settings,
    registry: Registry,
    draining: Draining,
    *,
    width: int,
    slots: int,
    queues: Sequence[str],
) -> PoolProcess:
    """Open the stores, install the tasks' environment and start housekeeping, all in this process.

    `width` is how many tasks this process runs at once: its threads, or 1 for a prefork child. `slots` is how many of
    them may be stages: none where no stage's queue is among the `queues` that are read.
    """
    in_place = settings.in_place(queues)
    stores = connect(settings.postgres_url, max_size=width + 2)
    clock = SystemClock()
    own_id = process_id()
    leases = HeldLeases(
        stores.ledger,
        clock,
        draining,
        process_id=own_id,
        lease=settings.lease,
        limit_of=partial(settings.limit_of, in_place=in_place),
    )
    invoker = Invoker(_log_stray)
    core = Environment(
        ledger=stores.ledger,
        checkpoints=stores.checkpoints,
        snapshots=stores.snapshots,
        registry=registry,
        clock=clock,
        leases=leases,
        invoker=invoker,
        new_id=new_turn_id,
        policy=settings.policy,
    )
    env = TaskEnvironment(core=core, sweep=settings.sweep_policy, goes_on=in_place.__contains__)
    install_environment(env)
    record = ProcessRecord(
        process_id=own_id,
        slots=slots,
        queues=tuple(queues),
        signatures=dict(registry.signatures),
    )
    # Guarded, and shorter than a round: a broker that hangs must not keep leases from being renewed.
    publisher = GuardedPublisher(app, settings.housekeeping / 4)
    housekeeping = Housekeeping(env, leases, publisher, draining, record, settings.housekeeping)
    housekeeping.start()
    return PoolProcess(stores, invoker, housekeeping)


def _log_stray(kind: type[BaseException] | None) -> None:
    log.warning(
        "user code left something behind on the event loop",
        extra={"error": kind.__name__ if kind else "unknown"},
    )
