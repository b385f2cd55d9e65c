from __future__ import annotations

import json
import re
from datetime import datetime

import pytest

from tests.workers.cli.conftest import Command
from tests.workers.cli.test_turns import KEYS
from turnchain.stores.conformance.exam import TENANT_A, Given, id_of


def test_sessions_are_a_table_with_the_last_turn_of_each(given: Given, command: Command) -> None:
    given.settled("t1", session="s1")
    given.settled("t2", session="s2")
    given.claimed("t3", session="s2")
    given.accepted("t4", session="s2")

    done = command("sessions")

    header, *rows = (re.split(r" {2,}", line) for line in done.lines)
    assert done.status == 0
    assert done.err == ""
    assert header == [
        "LAST TURN", "STANDS", "ANSWERED", "QUEUED", "BEGUN", "ORCHESTRATOR", "SESSION",
    ]  # fmt: skip
    assert [row[:4] + row[5:] for row in rows] == [
        [id_of("t4"), "queued", "1", "1", "bot", "s2"],
        [id_of("t1"), "awaiting-input", "1", "0", "bot", "s1"],
    ]


def test_json_is_one_object_a_line_with_keys_that_stay(given: Given, command: Command) -> None:
    given.settled("t1", owner=TENANT_A)

    told = json.loads(command("sessions", "--json").out)

    assert list(told) == [
        "session_id", "orchestrator_name", "tenant", "user_id", "created_at", "head_turn_index", "queued", "last_turn",
    ]  # fmt: skip
    assert (told["session_id"], told["tenant"], told["user_id"]) == ("s", "a", "ann")
    assert (told["head_turn_index"], told["queued"]) == (0, 0)
    assert list(told["last_turn"]) == KEYS
    assert datetime.fromisoformat(told["created_at"]).tzinfo is not None


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--session", "s1"], ["s1"]),
        (["--orchestrator", "bot"], ["s2", "s1", "s0"]),
        (["--orchestrator", "other"], []),
        (["--limit", "2"], ["s2", "s1"]),
    ],
)
def test_options_say_which(
    given: Given, command: Command, options: list[str], found: list[str]
) -> None:
    for n in range(3):
        given.settled(f"t{n}", session=f"s{n}")
    given.accepted("t9", session="not begun")

    lines = command("sessions", "--json", *options).lines

    assert [json.loads(line)["session_id"] for line in lines] == found


def test_pages_lead_from_one_to_the_next(given: Given, command: Command) -> None:
    for n in range(5):
        given.settled(f"t{n}", session=f"s{n}")

    pages = [command("sessions", "--json", "--limit", "2")]
    while pages[-1].err:
        *_, option, place = pages[-1].err.removesuffix(".\n").split()
        pages.append(command("sessions", "--json", "--limit", "2", option, place))

    found = [[json.loads(line)["session_id"] for line in page.lines] for page in pages]
    assert found == [["s4", "s3"], ["s2", "s1"], ["s0"]]


def test_nothing_found_is_said_beside_the_list(given: Given, command: Command) -> None:
    done = command("sessions")

    assert (done.status, done.out, done.err) == (0, "", "No session is like that.\n")


@pytest.mark.parametrize("text", ["yesterday", "2026-11-30", "2026-11-30T22:06:38"])
def test_a_page_begins_at_an_instant_with_a_zone(command: Command, text: str) -> None:
    done = command("sessions", "--before", text)

    assert done.status == 2
    assert f"{text!r} is no instant with a zone, such as 2026-11-30T22:06:38Z" in done.err
