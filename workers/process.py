"""One pool process: what it opens after the fork and closes at its end."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

from celery import Celery

from turnchain.orchestrator_core.contracts import ProcessRecord
from turnchain.orchestrator_core.environment import Environment
from turnchain.orchestrator_core.invoke import Invoker
from turnchain.orchestrator_core.registry import Registry
from turnchain.stores.postgres import PostgresStores, connect
from turnchain.tasks.environment import TaskEnvironment, install_environment, remove_environment
from turnchain.workers.clock import SystemClock, new_turn_id
from turnchain.workers.draining import Draining
from turnchain.workers.housekeeping import Housekeeping
from turnchain.workers.leases import HeldLeases
from turnchain.workers.publishing import WorkerPublisher
from turnchain.workers.settings import Settings


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
    app: Celery, settings: Settings, registry: Registry, draining: Draining, slots: int
) -> PoolProcess:
    """Open the stores, install the tasks' environment and start housekeeping, all in this process.

    `slots` is how many stages this process runs at once: its threads, or 1 for a prefork child.
    """
    stores = connect(settings.postgres_url, max_size=slots + 2)
    clock = SystemClock()
    process_id = f"{socket.gethostname()}:{os.getpid()}"
    leases = HeldLeases(
        stores.ledger,
        clock,
        draining,
        process_id=process_id,
        lease=settings.lease,
        limit_of=settings.limit_of,
    )
    invoker = Invoker()
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
    env = TaskEnvironment(core=core, sweep=settings.sweep_policy)
    install_environment(env)
    record = ProcessRecord(process_id=process_id, slots=slots, signatures=dict(registry.signatures))
    housekeeping = Housekeeping(
        env, leases, WorkerPublisher(app), draining, record, settings.housekeeping
    )
    housekeeping.start()
    return PoolProcess(stores, invoker, housekeeping)
