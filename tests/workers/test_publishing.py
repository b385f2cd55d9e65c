"""Publishing within a deadline: a broker that hangs costs a web request two seconds once, and nobody a lost turn."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Generator
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
from celery import Celery

from turnchain.orchestrator_core.contracts import Stage, TurnId, Wake
from turnchain.workers import publishing
from turnchain.workers.publishing import PUBLISH_DEADLINE, GuardedPublisher, producer_app

ROOT = Path(__file__).parents[2]
SHORT = timedelta(milliseconds=50)


class Broker:
    """Takes wakes in place of a broker, and hangs while `hanging` is set."""

    def __init__(self) -> None:
        self.taken: list[Wake] = []
        self.begun = threading.Event()
        self.open = threading.Event()
        self.open.set()

    def take(self, app: object, wake: Wake) -> None:
        self.begun.set()
        self.open.wait(10)
        self.taken.append(wake)


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Generator[Broker]:
    broker = Broker()
    monkeypatch.setattr(publishing, "publish_quietly", broker.take)
    yield broker
    broker.open.set()


def wakes(count: int = 1) -> list[Wake]:
    turn_id = TurnId("9a3b5a3e-3f5e-4e0c-8a58-6c1b1d1f8f10")
    return [Wake(turn_id=turn_id, stage=Stage.LOAD, fence=fence) for fence in range(count)]


def until(holds: Callable[[], object]) -> None:
    deadline = monotonic() + 5
    while not holds():
        assert monotonic() < deadline
        threading.Event().wait(0.005)


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == "turnchain.workers"]


def test_wakes_are_published_in_order_before_the_call_returns(broker: Broker) -> None:
    publisher = GuardedPublisher(Celery(set_as_current=False))

    publisher.publish(wakes(3))

    assert broker.taken == wakes(3)


def test_nothing_to_publish_starts_nothing(broker: Broker) -> None:
    publisher = GuardedPublisher(Celery(set_as_current=False))

    publisher.publish([])

    assert publisher._thread is None


def test_publishers_at_the_same_time_are_all_served(broker: Broker) -> None:
    publisher = GuardedPublisher(Celery(set_as_current=False))
    threads = [threading.Thread(target=publisher.publish, args=(wakes(),)) for _ in range(32)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(broker.taken) == 32


def test_a_broker_that_hangs_costs_one_deadline_and_then_nothing(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    publisher = GuardedPublisher(Celery(set_as_current=False), SHORT)
    broker.open.clear()

    began = monotonic()
    publisher.publish(wakes())
    waited = monotonic() - began
    publisher.publish(wakes(2))
    publisher.publish(wakes(2))

    assert SHORT.total_seconds() <= waited < 1
    assert monotonic() - began < waited + SHORT.total_seconds()
    assert messages(caplog) == [
        "publishing takes longer than its deadline",
        "not published: the broker hangs",
        "not published: the broker hangs",
    ]
    assert [vars(each)["turns"] for each in caplog.records] == [1, 2, 2]


def test_publishing_goes_on_once_the_broker_answers_again(broker: Broker) -> None:
    publisher = GuardedPublisher(Celery(set_as_current=False), SHORT)
    broker.open.clear()
    publisher.publish(wakes())
    broker.open.set()
    until(lambda: broker.taken)

    publisher.publish(wakes(2))

    until(lambda: len(broker.taken) == 3)


def test_who_came_while_another_hung_is_published_after_all(broker: Broker) -> None:
    """Those who waited side by side have their orders in the queue already: none of them is dropped."""
    publisher = GuardedPublisher(Celery(set_as_current=False), SHORT)
    broker.open.clear()
    threads = [threading.Thread(target=publisher.publish, args=(wakes(),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    until(lambda: publisher._orders.qsize() == 7)
    for thread in threads:
        thread.join()

    broker.open.set()

    until(lambda: len(broker.taken) == 8)


def test_an_answer_at_the_very_deadline_does_not_count_as_hanging_for_ever(broker: Broker) -> None:
    """What broke: the flag was set after the thread had cleared it, and this process published nothing any more."""
    publisher = GuardedPublisher(Celery(set_as_current=False), timedelta(0))

    for _ in range(200):
        publisher.publish(wakes())
    until(lambda: publisher._late is None or publisher._late.done.is_set())
    before = len(broker.taken)
    publisher.publish(wakes())

    until(lambda: len(broker.taken) == before + 1)


def test_the_deadline_is_what_a_web_request_can_bear() -> None:
    assert timedelta(0) < PUBLISH_DEADLINE <= timedelta(seconds=2)


SCRIPT = """
import os, sys, threading
from datetime import timedelta
from celery import Celery
from turnchain.orchestrator_core.contracts import Stage, TurnId, Wake
from turnchain.workers import publishing

wake = Wake(turn_id=TurnId("9a3b5a3e-3f5e-4e0c-8a58-6c1b1d1f8f10"), stage=Stage.LOAD, fence=0)
publisher = publishing.GuardedPublisher(Celery(set_as_current=False), timedelta(milliseconds=50))
"""


def run(script: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT + script],
        capture_output=True,
        text=True,
        timeout=20,
        check=True,
        cwd=ROOT,
    )
    return done.stdout


def test_a_broker_that_hangs_does_not_hold_the_end_of_the_process() -> None:
    """What broke: the interpreter joined the publishing thread, so a web process could not be stopped."""
    out = run(
        """
publishing.publish_quietly = lambda app, wake: threading.Event().wait(3600)
publisher.publish([wake])
print("the end")
"""
    )

    assert out == "the end\n"


def test_a_child_of_a_fork_publishes_on_a_thread_of_its_own() -> None:
    """A preloading web server forks after the client was used; the parent's thread is not in the child."""
    out = run(
        """
publishing.publish_quietly = lambda app, wake: print("published by", os.getpid() == parent, flush=True)
parent = os.getpid()
publisher.publish([wake])
child = os.fork()
if child:
    sys.exit(os.waitpid(child, 0)[1])
publisher.publish([wake])
"""
    )

    assert out == "published by True\npublished by False\n"


def test_a_producers_app_takes_the_broker_from_the_app_given_and_leaves_that_alone() -> None:
    given = Celery(set_as_current=False)
    given.conf.update(
        broker_url="redis://read:1/0",
        broker_write_url="redis://write:1/0",
        broker_use_ssl={"ssl_cert_reqs": None},
        broker_transport_options={"global_keyprefix": "shop:", "visibility_timeout": 7},
        task_serializer="yaml",
        task_always_eager=True,
    )
    before = dict(given.conf.broker_transport_options)

    app = producer_app(given, "ignored:", "turns")

    assert app.conf.broker_url == "redis://write:1/0"
    assert app.conf.broker_use_ssl == {"ssl_cert_reqs": None}
    options = app.conf.broker_transport_options
    assert (options["global_keyprefix"], options["visibility_timeout"]) == ("shop:", 7)
    assert options["socket_timeout"] <= 1
    assert app.conf.task_serializer == "json"
    assert given.conf.broker_transport_options == before
    assert given.conf.task_routes is None


@pytest.mark.parametrize(
    ("url", "prefix"),
    [("redis://host:1/0", "mine:"), ("rediss://host:1/0", "mine:"), ("amqp://host//", None)],
)
def test_a_broker_given_as_url_gets_the_workers_key_prefix(url: str, prefix: str | None) -> None:
    app = producer_app(url, "mine:", "turns")

    assert app.conf.broker_url == url
    assert app.conf.broker_transport_options.get("global_keyprefix") == prefix


def test_a_producer_keeps_no_result_repeats_nothing_and_knows_the_queue_of_load() -> None:
    conf: Any = producer_app("redis://host:1/0", "mine:", "first").conf

    assert conf.result_backend is None
    assert conf.task_ignore_result is True
    assert conf.task_publish_retry is False
    assert conf.task_routes["turn.load"] == {"queue": "first"}
    assert conf.task_routes["turn.persist"] == {"queue": "turns"}


def test_a_producers_app_does_not_become_anybodys_default() -> None:
    from celery import current_app

    before = current_app.main

    producer_app("redis://host:1/0", "mine:", "turns")

    assert current_app.main == before != "turnchain-producer"


def test_what_it_logs_names_no_turn_of_anybody(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    publisher = GuardedPublisher(Celery(set_as_current=False), SHORT)
    broker.open.clear()

    with caplog.at_level(logging.DEBUG):
        publisher.publish(wakes())

    assert "9a3b5a3e" not in caplog.text
