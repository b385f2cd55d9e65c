"""The message: a chain of ids, the same size whatever a turn holds."""

from __future__ import annotations

import json
from typing import cast

import pytest
import redis

from tests.tasks.desk import SECRET, Desk, body_of, header, new_app
from turnchain.orchestrator_core import wire
from turnchain.orchestrator_core.contracts import STAGES, Stage, TurnId, Wake
from turnchain.tasks.chain import links, publish, routes

TURN = TurnId("9a3b5a3e-3f5e-4e0c-8a58-6c1b1d1f8f10")
LARGEST_BYTES = 4096


def wake_of(stage: Stage, fence: int = 0) -> Wake:
    return Wake(turn_id=TURN, stage=stage, fence=fence)


@pytest.mark.parametrize("stage", STAGES)
def test_a_chain_has_the_stages_that_are_still_before_the_turn(desk: Desk, stage: Stage) -> None:
    found = links(desk.app, wake_of(stage, 3), "0a1b2c3d")

    assert [link.task for link in found] == [
        f"turn.{each.value}" for each in STAGES[STAGES.index(stage) :]
    ]
    assert {tuple(link.args) for link in found} == {(TURN, 3)}
    assert all(link.immutable for link in found)


def test_task_ids_say_turn_stage_and_fence_and_are_fresh_for_every_publication(desk: Desk) -> None:
    publish(desk.app, wake_of(Stage.LOCK, 7))
    publish(desk.app, wake_of(Stage.LOCK, 7))

    first, second = (header(message, "id") for message in desk.messages())
    assert first.startswith(f"{TURN}:lock:7.")
    assert second.startswith(f"{TURN}:lock:7.")
    assert first != second


@pytest.mark.parametrize("stage", STAGES)
def test_one_message_is_published_with_the_rest_of_the_chain_inside(
    desk: Desk, stage: Stage
) -> None:
    publish(desk.app, wake_of(stage, 2))

    (message,) = desk.messages()
    args, kwargs, embed = body_of(message)
    assert header(message, "task") == f"turn.{stage.value}"
    assert (args, kwargs) == ([TURN, 2], {})
    # Celery takes the next link from the end of the list.
    inside = [link["task"] for link in reversed(embed["chain"] or [])]
    assert inside == [f"turn.{each.value}" for each in STAGES[stage.order + 1 :]]
    assert embed["callbacks"] is embed["errbacks"] is embed["chord"] is None


def test_no_link_says_its_queue_for_the_worker_that_hands_over_routes_it(desk: Desk) -> None:
    """A producer knows where `load` goes; where `dispatch` goes is the workers' setting."""
    publish(desk.app, wake_of(Stage.LOAD))

    (message,) = desk.messages()
    for link in body_of(message)[2]["chain"]:
        assert not {"queue", "routing_key", "exchange"} & set(link["options"])


def test_a_done_turn_is_published_no_more(desk: Desk) -> None:
    publish(desk.app, wake_of(Stage.DONE))

    assert desk.messages() == []


def test_the_longest_message_is_below_four_kilobytes_in_redis(
    redis_url: str, key_prefix: str
) -> None:
    app = new_app(redis_url)
    app.conf.broker_transport_options = {"global_keyprefix": key_prefix}

    publish(app, wake_of(Stage.LOAD, 2**63 - 1))
    app.close()

    with redis.Redis.from_url(redis_url) as client:
        (stored,) = cast("list[bytes]", client.lrange(f"{key_prefix}turns", 0, -1))
    assert TURN.encode() in stored
    assert len(stored) < LARGEST_BYTES


def test_no_message_waits_in_a_worker_or_asks_for_a_result(desk: Desk) -> None:
    for stage in STAGES:
        publish(desk.app, wake_of(stage))

    for message in desk.messages():
        inside = json.dumps(body_of(message)[2])
        assert header(message, "eta") is None
        assert header(message, "ignore_result") is True
        assert '"eta"' not in inside
        assert '"countdown"' not in inside


def test_messages_do_not_grow_with_the_turn_and_hold_nothing_a_person_wrote(desk: Desk) -> None:
    small = desk.ready(SECRET, "small session")
    large = desk.ready(SECRET * 1000, "large session")
    for wake in (small, large):
        publish(desk.app, wake)

    sizes: list[int] = []
    for message in desk.messages():
        whole = f"{message.body}{message.headers}{message.properties}"
        sizes.append(len(str(message.body)) + len(str(message.headers)))
        assert SECRET not in whole
        assert "person" not in whole
        assert "session" not in whole
    assert len(sizes) == 2
    assert sizes[0] == sizes[1]


def test_stages_go_to_one_queue_unless_the_operator_says_otherwise() -> None:
    found = routes({Stage.DISPATCH: "models"})

    assert found["turn.dispatch"] == {"queue": "models"}
    assert {found[f"turn.{stage.value}"]["queue"] for stage in STAGES} == {"turns", "models"}
    assert found[wire.TAKEOVER] == {"queue": wire.CONTROL_QUEUE}
    assert found[wire.DRAIN] == {"queue": wire.MAINTENANCE_QUEUE}
    assert len(found) == len(STAGES) + 2


def test_options_of_a_publication_reach_the_broker(desk: Desk) -> None:
    publish(desk.app, wake_of(Stage.LOAD), queue="elsewhere")

    assert desk.messages() == []
    assert [wake.turn_id for wake in desk.wakes("elsewhere")] == [TURN]
