"""Our tasks on an app that a team already runs: beside its own, and its settings stay as they are."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from celery import Celery, signals
from celery.schedules import crontab
from kombu import Exchange, Queue

import turnchain
from turnchain.orchestrator_core import wire
from turnchain.orchestrator_core.contracts import STAGES, Stage
from turnchain.orchestrator_core.errors import SettingsError
from turnchain.workers.installing import install, queue_names, queues
from turnchain.workers.settings import Settings

SETTINGS = Settings(
    postgres_url="postgresql://host/db",
    stage_queues={Stage.DISPATCH: "models", Stage.LOAD: "turns"},
)
OURS = {*(wire.task_name(stage) for stage in STAGES), wire.TAKEOVER, wire.DRAIN}
FOLLOWED = (
    signals.worker_init,
    signals.worker_process_init,
    signals.worker_shutting_down,
    signals.worker_process_shutdown,
    signals.worker_shutdown,
)


@pytest.fixture(autouse=True)
def _signals_as_before() -> Generator[None]:
    before = [list(signal.receivers) for signal in FOLLOWED]
    yield
    for signal, receivers in zip(FOLLOWED, before, strict=True):
        signal.receivers[:] = receivers
        cache: Any = vars(signal)["sender_receivers_cache"]
        cache.clear()


def shop(**conf: Any) -> Celery:
    """An app with tasks and settings of its own."""
    app = Celery("shop", set_as_current=False, broker="memory://")
    app.conf.update(conf)

    @app.task(name="shop.mail", shared=False)
    def mail() -> None:
        """Send one."""

    del mail
    return app


def queue_of(app: Celery, task: str) -> str:
    return app.amqp.router.route({}, task)["queue"].name


def test_all_tasks_are_there_beside_the_apps_own() -> None:
    app = shop()

    install(app, SETTINGS)

    assert set(app.tasks) >= OURS | {"shop.mail"}


@pytest.mark.parametrize(
    "given",
    [
        None,
        {"shop.*": {"queue": "shop"}},
        [{"shop.*": {"queue": "shop"}}],
        ({"shop.mail": {"queue": "shop"}}, {"*": {"queue": "rest"}}),
        {"*": {"queue": "shop"}},
        lambda name, args, kwargs, options, task=None, **_: {"queue": "shop"},
    ],
    ids=["none", "dict", "list", "tuple", "catch-all", "function"],
)
def test_our_routes_come_before_the_apps_and_its_own_still_hold(given: Any) -> None:
    app = shop(task_routes=given)

    install(app, SETTINGS)

    assert queue_of(app, "turn.load") == "turns"
    assert queue_of(app, "turn.dispatch") == "models"
    assert queue_of(app, wire.TAKEOVER) == "control"
    assert queue_of(app, wire.DRAIN) == "maintenance"
    assert queue_of(app, "shop.mail") == ("celery" if given is None else "shop")


def test_queues_are_added_behind_the_apps_own_where_it_names_any() -> None:
    own = [Queue("shop", Exchange("shop"), routing_key="shop"), Queue("control")]
    app = shop(task_queues=own)

    install(app, SETTINGS)
    install(app, SETTINGS)

    assert [each.name for each in app.conf.task_queues] == [
        "shop",
        "control",
        "turns",
        "maintenance",
        "models",
    ]
    assert app.conf.task_queues[:2] == own


def test_an_app_that_names_no_queues_goes_on_naming_none() -> None:
    app = shop()

    install(app, SETTINGS)

    assert not app.conf.task_queues


def test_each_queue_has_an_exchange_and_a_key_of_its_own() -> None:
    """Without, every message of the app would go to all of them."""
    found = queues(SETTINGS)

    assert [each.name for each in found] == queue_names(SETTINGS)
    assert all(each.exchange.name == each.routing_key == each.name for each in found)
    assert {each.exchange.type for each in found} == {"direct"}


def test_beat_drains_with_a_message_that_expires_with_its_interval() -> None:
    own = {"mail": {"task": "shop.mail", "schedule": crontab(hour=7)}}
    app = shop(beat_schedule=own)

    install(app, SETTINGS)

    assert app.conf.beat_schedule["mail"] == own["mail"]
    entry = app.conf.beat_schedule["turnchain-drain"]
    assert entry["task"] == wire.DRAIN
    assert entry["schedule"] == 5
    assert entry["options"] == {"expires": 5, "queue": "maintenance"}


def test_the_apps_own_settings_stay_as_they_are() -> None:
    given = {
        "task_acks_late": False,
        "task_time_limit": 7,
        "task_soft_time_limit": 6,
        "task_serializer": "json",
        "task_ignore_result": False,
        "task_default_queue": "shop",
        "worker_prefetch_multiplier": 9,
        "result_backend": "cache+memory://",
        "task_always_eager": False,
        "task_track_started": True,
    }
    app, untouched = shop(**given), shop(**given)

    install(app, SETTINGS)

    changed = {key for key in app.conf if app.conf[key] != untouched.conf[key]}
    assert changed == {"beat_schedule", "task_routes"}
    own = app.tasks["shop.mail"]
    assert (own.acks_late, own.time_limit, own.ignore_result) == (False, 7, False)
    ours = app.tasks["turn.load"]
    assert (ours.acks_late, ours.time_limit, ours.ignore_result) == (True, 60, True)


def test_the_workers_life_cycle_is_followed() -> None:
    before = [len(signal.receivers) for signal in FOLLOWED]

    install(shop(), SETTINGS)

    assert [len(signal.receivers) for signal in FOLLOWED] == [count + 1 for count in before]


def test_without_settings_nothing_is_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TURNCHAIN_POSTGRES_URL", raising=False)
    app = shop()
    before = [len(signal.receivers) for signal in FOLLOWED]

    with pytest.raises(SettingsError, match="TURNCHAIN_POSTGRES_URL is not set"):
        turnchain.install(app)

    assert [len(signal.receivers) for signal in FOLLOWED] == before
    assert app.conf.task_routes is None
    assert "turnchain-drain" not in (app.conf.beat_schedule or {})


def test_the_environment_is_read_where_no_settings_are_given(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TURNCHAIN_POSTGRES_URL", "postgresql://host/db")
    monkeypatch.setenv("TURNCHAIN_SWEEP_INTERVAL", "9")
    app = shop()

    turnchain.install(app)

    assert app.conf.beat_schedule["turnchain-drain"]["schedule"] == 9
