"""Putting our tasks on a Celery app: the one that a team already runs, or our own."""

from __future__ import annotations

import os
from importlib import import_module

from celery import Celery
from kombu import Exchange, Queue

from turnchain.orchestrator_core import wire
from turnchain.tasks.chain import routes
from turnchain.workers.lifecycle import Lifecycle
from turnchain.workers.reaping import Reaper
from turnchain.workers.settings import Settings

TASK_MODULES = (
    *(f"turnchain.tasks.{stage}" for stage in wire.STAGE_NAMES),
    "turnchain.tasks.takeover",
    "turnchain.tasks.drain",
)


def install(app: Celery, settings: Settings | None = None) -> Lifecycle:
    """Register tasks, routes, beat's entry and the worker's life cycle on `app`.

    Leaves the app's own settings as they are: limits and acks are each task's, our routes come before the app's, our
    queues behind its own.

    Raises:
        SettingsError: the environment lacks a setting, or has a wrong one.
    """
    settings = settings or Settings.from_env(os.environ)
    for module in TASK_MODULES:
        import_module(module)
    _add_routes(app, settings)
    _add_queues(app, settings)
    app.conf.beat_schedule = {
        **(app.conf.beat_schedule or {}),
        "turnchain-drain": drain_entry(settings),
    }
    app.steps["worker"].add(Reaper)
    lifecycle = Lifecycle(app, settings)
    lifecycle.connect()
    return lifecycle


def drain_entry(settings: Settings) -> dict[str, object]:
    """Beat's entry. The message expires with its interval, so that a stopped pool gathers none."""
    seconds = settings.sweep_interval.total_seconds()
    return {
        "task": wire.DRAIN,
        "schedule": seconds,
        "options": {"expires": seconds, "queue": wire.MAINTENANCE_QUEUE},
    }


def queue_names(settings: Settings) -> list[str]:
    """Every queue that our tasks use."""
    return [*wire.QUEUES, *sorted(set(settings.stage_queues.values()) - set(wire.QUEUES))]


def queues(settings: Settings) -> list[Queue]:
    """The queues, each with an exchange and a key of its own: without, a message would go to all of them."""
    return [
        Queue(name, Exchange(name, type="direct"), routing_key=name)
        for name in queue_names(settings)
    ]


def _add_routes(app: Celery, settings: Settings) -> None:
    given = app.conf.task_routes
    ours = routes(settings.stage_queues)
    app.conf.task_routes = [
        ours,
        *(given if isinstance(given, list | tuple) else [given] if given else []),
    ]


def _add_queues(app: Celery, settings: Settings) -> None:
    """Where an app names its queues, ours must be among them; where it does not, Celery makes them as they are used."""
    if app.conf.task_queues:
        known = {queue.name for queue in app.conf.task_queues}
        app.conf.task_queues = [
            *app.conf.task_queues,
            *(each for each in queues(settings) if each.name not in known),
        ]
