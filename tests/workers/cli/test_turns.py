from __future__ import annotations

import json
import re
from datetime import datetime

import pytest

from tests.workers.cli.conftest import Command
from turnchain.orchestrator_core.contracts import ProcessRecord, Stage, TurnStatus
from turnchain.stores.conformance.exam import FAILED, LEASE, TENANT_A, Given, id_of

KEYS = [
    "turn_id", "orchestrator_name", "session_id", "tenant", "user_id", "status", "stage", "standing", "seq", "run_id",
    "runner", "fence", "attempts", "takeovers", "lease_owner", "lease_expires_at", "ready_at", "parked", "turn_index",
    "priority", "cancel_requested_at", "deadline", "accepted_at", "admitted_at", "settled_at",
]  # fmt: skip


def ids_of(lines: list[str]) -> list[str]:
    return [json.loads(line)["turn_id"] for line in lines]


def test_turns_are_a_table_of_whole_ids_the_last_accepted_first(
    given: Given, command: Command
) -> None:
    given.settled("t1")
    given.claimed("t2", session="a longer name")

    done = command("turns")

    header, second, first = done.lines
    assert done.status == 0
    assert done.err == ""
    assert header.split() == ["TURN", "STANDS", "ACCEPTED", "ORCHESTRATOR", "SESSION"]
    cells = [re.split(r" {2,}", line) for line in (second, first)]
    assert [row[:2] for row in cells] == [
        [id_of("t2"), "owned at load"],
        [id_of("t1"), "awaiting-input"],
    ]
    assert [row[3:] for row in cells] == [["bot", "a longer name"], ["bot", "s"]]
    assert re.fullmatch(r"\d+ s ago", cells[0][2])
    assert all(line[header.index("SESSION") - 1] == " " for line in done.lines)
    assert "\x1b" not in done.out


@pytest.mark.parametrize(
    ("turn", "stands"),
    [
        ("queued", "queued"),
        ("ready", "ready at load"),
        ("parked", "parked at load (no-worker)"),
        ("failed", "failed"),
        ("compacting", "awaiting-input, ready at compact"),
    ],
)
def test_a_turn_stands_in_few_words(given: Given, command: Command, turn: str, stands: str) -> None:
    given.accepted("queued", session="queued")
    given.admitted("ready", session="ready")
    claim = given.claimed("parked", session="parked")
    given.ledger.park(claim, reason="no-worker", wait=LEASE, stage=Stage.LOAD, work=claim.work)
    given.settled("failed", session="failed", outcome=FAILED)
    given.persisted(given.claimed("compacting", session="compacting", stage=Stage.PERSIST))

    (line,) = command("turns", "--session", turn).lines[1:]

    assert re.split(r" {2,}", line)[1] == stands


def test_json_is_one_object_a_line_with_keys_that_stay(given: Given, command: Command) -> None:
    """Programs read them: a key that goes away breaks somebody's."""
    given.settled("t1", owner=TENANT_A)
    given.claimed("t2", session="s2")

    done = command("turns", "--json")

    second, first = (json.loads(line) for line in done.lines)
    assert list(first) == list(second) == KEYS
    assert (first["turn_id"], first["standing"], first["tenant"]) == (id_of("t1"), "settled", "a")
    assert (second["lease_owner"], second["parked"]) == (given.turn("t2").lease_owner, None)
    turn = given.turn("t1")
    assert datetime.fromisoformat(first["settled_at"]) == turn.settled_at
    assert first["settled_at"].endswith("Z")


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ([], ["parked", "queued", "failed", "done"]),
        (["--session", "s2"], ["failed"]),
        (["--orchestrator", "bot", "--session", "s1"], ["done"]),
        (["--orchestrator", "other"], []),
        (["--status", "failed"], ["failed"]),
        (["--status", "queued"], ["queued"]),
        (["--status", "dead"], []),
        (["--stuck"], ["parked", "queued"]),
        (["--stuck", "--status", "queued"], ["queued"]),
    ],
)
def test_options_say_which(
    given: Given, command: Command, options: list[str], found: list[str]
) -> None:
    given.settled("done", session="s1")
    given.settled("failed", session="s2", outcome=FAILED)
    given.accepted("queued", session="s3")
    given.admitted("parked", session="s4")

    assert ids_of(command("turns", "--json", *options).lines) == [id_of(name) for name in found]


def test_stuck_goes_by_the_queues_of_the_settings(
    given: Given, command: Command, worker: ProcessRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    given.admitted("t1")

    assert command("turns", "--stuck").out == ""
    monkeypatch.setenv("TURNCHAIN_STAGE_QUEUES", "load=first")
    assert id_of("t1") in command("turns", "--stuck").out


def test_pages_lead_from_one_to_the_next(given: Given, command: Command) -> None:
    for n in range(5):
        given.accepted(f"t{n}", session=f"s{n}")

    pages = [command("turns", "--json", "--limit", "2")]
    while pages[-1].err:
        *_, option, place = pages[-1].err.removesuffix(".\n").split()
        pages.append(command("turns", "--json", "--limit", "2", option, place))

    assert [ids_of(page.lines) for page in pages] == [
        [id_of("t4"), id_of("t3")],
        [id_of("t2"), id_of("t1")],
        [id_of("t0")],
    ]


def test_a_page_that_is_just_full_is_the_last_one(given: Given, command: Command) -> None:
    given.accepted("t1")

    assert command("turns", "--limit", "1").err == ""


def test_nothing_found_is_said_beside_the_list(given: Given, command: Command) -> None:
    for options in ([], ["--json"]):
        done = command("turns", *options)

        assert (done.status, done.out) == (0, "")
    assert command("turns").err == "No turn is like that.\n"


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_an_id_cannot_break_a_line_or_speak_to_a_terminal(
    given: Given, command: Command, options: list[str]
) -> None:
    given.accepted("t1", session="a\x1b[2J\nb\x9b☃")

    done = command("turns", *options)

    assert all(sign == "\n" or " " <= sign <= "~" or sign == "☃" for sign in done.out)
    assert len(done.lines) == (1 if options else 2)
    if options:
        assert json.loads(done.out)["session_id"] == "a\x1b[2J\nb\x9b☃"
    else:
        assert r"a\x1b[2J\nb\x9b☃" in done.out


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--status", "broken"], "'broken' is no status: give one of queued, running"),
        (["--limit", "0"], "'0' is no number from 1 to 10000"),
        (["--limit", "many"], "'many' is no number from 1 to 10000"),
        (["--limit", "1000000"], "'1000000' is no number from 1 to 10000"),
        (["--before", "yesterday"], "'yesterday' is no seq: take it from the page before"),
        (["--before", "9" * 30], "is no seq"),
        (["--colour"], "unrecognized arguments: --colour"),
    ],
)
def test_a_wrong_option_is_refused_in_a_sentence(
    given: Given, command: Command, options: list[str], says: str
) -> None:
    done = command("turns", *options)

    assert done.status == 2
    assert done.out == ""
    assert says in done.err.splitlines()[-1]


def test_every_status_can_be_asked_for(given: Given, command: Command) -> None:
    assert [command("turns", "--status", each).status for each in TurnStatus] == [0] * 12
