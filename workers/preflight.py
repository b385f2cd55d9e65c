"""What must hold before a worker starts: one sentence instead of a stack of errors an hour later."""

from __future__ import annotations

import traceback

from celery import Celery

from turnchain.orchestrator_core.errors import SettingsError, TurnchainError
from turnchain.orchestrator_core.registry import Registry, load_definitions
from turnchain.stores.postgres import connect
from turnchain.workers.settings import Settings

POOLS = ("prefork", "threads", "solo")


def check_pool(pool: str) -> None:
    """Refuse pools that cannot keep a lease.

    Raises:
        SettingsError: gevent or eventlet.
    """
    green = [kind for kind in ("gevent", "eventlet") if kind in pool]
    if green:
        raise SettingsError(
            f"pool = {green[0]} is not supported: it patches the threads and sockets that renew leases, and kombu with "
            f"Redis delivers to it at a fraction of the speed; start the worker with --pool threads (or one of {POOLS})"
        )


def check_app(app: Celery) -> None:
    """Refuse an app whose tasks run where they are published.

    Raises:
        SettingsError: `task_always_eager` is on.
    """
    if app.conf.task_always_eager:
        raise SettingsError(
            "task_always_eager is on: a worker would run whole turns inside whatever publishes a message; turn it off"
        )


def registry_of(settings: Settings) -> Registry:
    """Import what the worker is to serve.

    Raises:
        TurnchainError: a path holds no orchestrator, or its module cannot be imported, for whatever reason.
    """
    try:
        return Registry(load_definitions(settings.orchestrators))
    except TurnchainError:
        raise
    except Exception as error:
        raised = traceback.extract_tb(error.__traceback__)[-1]
        raise SettingsError(
            f"TURNCHAIN_ORCHESTRATORS = {','.join(settings.orchestrators)!r} cannot be imported: "
            f"{type(error).__name__}: {error} ({raised.filename}:{raised.lineno})"
        ) from error


def check_registry(registry: Registry) -> None:
    """Refuse a worker with nothing to serve.

    Raises:
        SettingsError: no orchestrator is configured or installed.
    """
    if not registry.names:
        raise SettingsError(
            "TURNCHAIN_ORCHESTRATORS is empty and no installed package offers any: set it to package.module:attribute, "
            "several separated by commas"
        )


def check_ledger(settings: Settings) -> None:
    """Ask the database once, and let go of it again before any fork.

    Raises:
        StoreUnavailableError: it does not answer.
        SchemaMissingError: it lacks our tables, or functions of this release.
    """
    stores = connect(settings.postgres_url, max_size=1)
    try:
        stores.check_schema()
    finally:
        stores.close()
