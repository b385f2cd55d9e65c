from __future__ import annotations

import json

import pytest

from tests.workers.cli.conftest import Command
from tests.workers.cli.test_turns import KEYS
from turnchain.orchestrator_core.contracts import ProcessRecord, Stage
from turnchain.stores.conformance.exam import EXPIRED, Given, id_of


def test_a_sentence_comes_first_and_then_a_few_facts(
    given: Given, command: Command, worker: ProcessRecord
) -> None:
    given.claimed("t1", session="s1", stage=Stage.DISPATCH, lease=EXPIRED)
    (wake,) = given.ledger.take_over_expired(3)
    given.granted(wake)

    done = command("why", id_of("t1"))

    sentence, *facts = done.lines
    assert done.status == 0
    assert done.err == ""
    assert sentence.startswith(
        "Owned by process host:1, which runs dispatch (0 iterations settled)"
    )
    told = dict(line.strip().split("  ", 1) for line in facts)
    assert list(told) == ["session", "accepted", "takeovers", "workers"]
    assert told["session"].strip() == "bot / s1"
    assert told["takeovers"].strip() == "1 in all, 1 without progress (dead at 3)"
    assert told["workers"].strip() == "1 live, 1 for this turn"


def test_a_turn_that_nobody_will_move_is_a_bad_finding(given: Given, command: Command) -> None:
    given.accepted("t1")

    plain, machine = command("why", id_of("t1")), command("why", id_of("t1"), "--json")

    assert (plain.status, machine.status) == (1, 1)
    assert plain.lines[0] == (
        "Queued, and nobody will start it: no worker has ever been alive, so start one."
    )


def test_json_is_one_object_with_keys_that_stay(
    given: Given, command: Command, worker: ProcessRecord
) -> None:
    given.admitted("t1")
    given.accepted("t2")

    done = command("why", id_of("t2"), "--json")
    (line,) = done.lines
    told = json.loads(line)

    assert done.status == 0
    assert list(told) == [
        "turn_id", "standing", "stuck", "sentence", "read_at", "turn", "queue", "behind_turn_id", "queued_before",
        "preferred", "in_flight", "capacity", "live_processes", "able_processes", "last_heartbeat_at", "swept_at",
        "wakes", "next_rewake_at", "last_event", "last_event_at", "iterations", "open_steps", "error_code",
    ]  # fmt: skip
    assert list(told["turn"]) == KEYS
    assert (told["turn_id"], told["standing"], told["stuck"]) == (id_of("t2"), "queued", False)
    assert (told["behind_turn_id"], told["queue"]) == (id_of("t1"), "turns")
    assert (told["in_flight"], told["capacity"]) == (1, 2)
    assert told["live_processes"] == told["able_processes"] == ["host:1"]
    assert told["sentence"].startswith(f"Queued behind turn {id_of('t1')} of its session, which is")
    assert told["last_heartbeat_at"].endswith("Z")
    assert told["swept_at"] is None


def test_a_ready_turn_says_when_it_is_published_again(
    given: Given, command: Command, worker: ProcessRecord
) -> None:
    given.admitted("t1")

    told = json.loads(command("why", id_of("t1"), "--json").out)

    assert told["standing"] == "ready"
    assert told["next_rewake_at"] > told["turn"]["ready_at"]


@pytest.mark.parametrize(
    "written",
    ["{}", "{}:dispatch:3.0af1", " {} ", "{}:load:0"],
    ids=["id", "task", "spaces", "old"],
)
def test_a_turn_is_named_by_its_id_or_by_a_task_of_it(
    given: Given, command: Command, written: str
) -> None:
    given.settled("t1")

    for text in (written.format(id_of("t1")), written.format(id_of("t1")).upper()):
        assert command("why", text).lines[0].startswith("Settled as awaiting-input at")


@pytest.mark.parametrize(
    ("turn", "says"),
    [
        (id_of("nobody"), f"no turn has the id '{id_of('nobody')}'; `turnchain turns` lists them"),
        ("42", "'42' is no turn id: that is a UUID of 36 characters"),
        ("", "'' is no turn id"),
        (id_of("t1")[:8], "is no turn id"),
    ],
)
def test_what_is_no_turn_is_bad_input(given: Given, command: Command, turn: str, says: str) -> None:
    for options in ([], ["--json"]):
        done = command("why", turn, *options)

        assert (done.status, done.out) == (2, "")
        assert done.err.startswith("turnchain why: ")
        assert says in done.err
        assert done.err.count("\n") == 1


def test_the_settings_of_the_workers_decide(
    given: Given, command: Command, worker: ProcessRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    given.admitted("t1")
    given.accepted("t2", session="s2")
    monkeypatch.setenv("TURNCHAIN_MAX_IN_FLIGHT", "1")
    monkeypatch.setenv("TURNCHAIN_STAGE_QUEUES", "load=first")

    assert command("why", id_of("t1")).status == 1
    assert "no live worker reads queue 'first' for load" in command("why", id_of("t1")).out
    monkeypatch.delenv("TURNCHAIN_STAGE_QUEUES")
    assert "capacity is full: 1 turn is owned or ready on 1 slot" in command("why", id_of("t2")).out


def test_nothing_that_a_person_wrote_is_shown(given: Given, command: Command) -> None:
    """[DESIGN 1.6]."""
    message = {"role": "user", "content": "hunter2"}
    given.claimed("t1", history=[message], state={"name": "hunter2"}, context={"card": "hunter2"})
    given.accepted("hunter2", session="s2")

    for turn in ("t1", "hunter2"):
        for options in ([], ["--json"]):
            assert "hunter2" not in command("why", id_of(turn), *options).out
