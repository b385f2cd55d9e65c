"""Where a process gets its Turnchain: a producer its client, a notebook its engine, a Celery app its tasks."""

from __future__ import annotations

import os
import socket
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from turnchain.orchestrator_core.client import SessionClient
from turnchain.orchestrator_core.definition import Orchestrator
from turnchain.orchestrator_core.engine import ENGINE_LEASE, Engine, InPlaceLeases
from turnchain.orchestrator_core.environment import Environment, Policy
from turnchain.orchestrator_core.errors import SettingsError
from turnchain.orchestrator_core.invoke import Invoker
from turnchain.orchestrator_core.registry import Registry
from turnchain.orchestrator_core.wire import TURNS_QUEUE
from turnchain.workers.clock import SystemClock, new_turn_id
from turnchain.workers.settings import BROKER_SCHEMES, without_secrets

if TYPE_CHECKING:
    from celery import Celery


def connect(
    url: str,
    *,
    broker: Celery | str,
    orchestrators: Iterable[str] | None = None,
    max_in_flight: int | None = None,
    pool_size: int = 4,
    key_prefix: str = "turnchain:",
    load_queue: str = TURNS_QUEUE,
) -> SessionClient:
    """A producer's client on a Postgres ledger and a Celery broker. Opens its connections on first use.

    Shape: `url` is `postgresql://…`; `broker` is the Celery app you have, or a broker URL. `orchestrators` are the
    names that `enqueue` takes; None goes by what the workers have announced. `key_prefix` and `load_queue` are the
    workers' TURNCHAIN_KEY_PREFIX (for a broker given as URL) and the queue of their `load` stage.

    Raises:
        SettingsError: a URL of another kind, or an extra is not installed.
    """
    with _extra("worker"):
        from turnchain.stores.postgres import connect as connect_postgres
        from turnchain.stores.postgres.callers import after_commit
        from turnchain.workers.publishing import GuardedPublisher, producer_app

    _check_url(url)
    _check_broker(broker)
    stores = connect_postgres(url, max_size=pool_size)
    return SessionClient(
        stores.ledger,
        GuardedPublisher(producer_app(broker, key_prefix, load_queue)),
        SystemClock(),
        new_turn_id,
        after_commit,
        known=None if orchestrators is None else sorted(orchestrators),
        max_in_flight=max_in_flight,
    )


def in_process(*definitions: Orchestrator, url: str = "memory://") -> Engine:
    """An engine that runs turns where it is called: on memory, or on the Postgres ledger of `url`.

    Raises:
        SettingsError: a URL of another kind, or two definitions of one name.
    """
    if url == "memory://":
        from turnchain.stores.memory import connect as connect_memory

        stores: Any = connect_memory()
    elif url.startswith(("postgresql://", "postgres://")):
        with _extra("postgres"):
            from turnchain.stores.postgres import connect as connect_postgres

        stores = connect_postgres(url)
    else:
        raise SettingsError(
            f"url = {without_secrets(url)!r} is not usable: give memory:// or postgresql://…"
        )
    clock = SystemClock()
    process_id = f"{socket.gethostname()}:{os.getpid()}:engine-{new_turn_id()[:8]}"
    env = Environment(
        ledger=stores.ledger,
        checkpoints=stores.checkpoints,
        snapshots=stores.snapshots,
        registry=Registry(definitions),
        clock=clock,
        leases=InPlaceLeases(stores.ledger, clock, process_id),
        invoker=Invoker(),
        new_id=new_turn_id,
        policy=Policy(lease=ENGINE_LEASE, admits=False),
    )
    return Engine(env)


def install(app: Celery) -> None:
    """Put Turnchain's tasks on a Celery app that you already run, next to your own.

    Sets limits, acks and routes on our tasks alone; your app's settings stay as they are, but for two queues more.
    Start a worker with `-Q turns,control,maintenance` and the TURNCHAIN_ settings in its environment.

    Raises:
        SettingsError: the environment lacks a setting, or has a wrong one.
    """
    with _extra("worker"):
        from turnchain.workers.installing import install as install_on

    install_on(app)


@contextmanager
def _extra(name: str) -> Generator[None]:
    """Say which extra brings what cannot be imported."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"the package {error.name!r} is not installed: pip install 'turnchain[{name}]'",
            {"extra": name},
        ) from error


def _check_url(url: object) -> None:
    """An empty text is a valid connection string to the driver: the one that names this machine's own server."""
    if not isinstance(url, str) or not url.strip():
        raise SettingsError(
            f"url = {url!r} is not usable: give postgresql://user:password@host/name"
        )


def _check_broker(broker: object) -> None:
    """Found here, since a broker that cannot be published to only logs: the ledger has the turn."""
    given = (*BROKER_SCHEMES, "memory://")
    is_app = hasattr(broker, "conf")
    if is_app and cast("Celery", broker).conf.task_always_eager:
        raise SettingsError(
            "broker: this Celery app has task_always_eager, and a turn is never run where it is enqueued: turn it off, "
            "or use turnchain.in_process(...) in tests"
        )
    if not is_app and not (isinstance(broker, str) and broker.startswith(given)):
        raise SettingsError(
            f"broker = {without_secrets(str(broker))!r} is not usable: give your Celery app, or a URL that begins with "
            f"one of {', '.join(given)}"
        )
