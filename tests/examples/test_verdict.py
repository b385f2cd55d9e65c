"""Each count of the verdict sees what it is there to see. [issue 3.2]"""

from __future__ import annotations

import psycopg
import pytest

import turnchain
from turnchain.examples.booking import world
from turnchain.examples.booking.bot import booking
from turnchain.examples.booking.dialogues import SAMPLE, read
from turnchain.examples.booking.play import leave_out, prepare
from turnchain.examples.booking.verdict import Verdict, judge, wait_until_done

NO_TURN = "00000000-0000-0000-0000-000000000001"


@pytest.fixture
def played(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database in which one dialogue of three turns was played as it should be."""
    dialogue = read(SAMPLE)[0]
    prepare(database_url, [dialogue])
    engine = turnchain.in_process(booking, url=database_url)
    with psycopg.connect(database_url, autocommit=True) as connection:
        monkeypatch.setattr(world, "_connection", lambda: connection)
        for index, turn in enumerate(dialogue.turns):
            result = engine.execute(
                "booking",
                turn.model_dump(include={"user", "frames", "calls"}),
                session_id=dialogue.dialogue_id,
                history=dialogue.history(index),
            )
            assert result.ok, result.error
    wait_until_done(database_url, 5)
    return database_url


def change(url: str, statement: str) -> None:
    with psycopg.connect(url) as connection:
        assert connection.execute(statement.encode()).rowcount > 0


def counts(found: Verdict) -> tuple[int, int, int]:
    return found.lost, found.doubled, found.wrong


def test_what_was_played_as_it_should_be_is_good(played: str) -> None:
    found = judge(played)

    assert found == Verdict(
        turns=3,
        sessions=1,
        effects=1,
        takeovers=0,
        rerun=0,
        lost=0,
        doubled=0,
        wrong=0,
        unhappy=0,
    )
    assert found.is_good


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        # a turn that never ended, and one that is not there at all
        ("UPDATE turnchain_turns SET status = 'paused' WHERE turn_index = 1", (1, 0, 0)),
        ("DELETE FROM turnchain_turns WHERE turn_index = 2", (1, 0, 0)),
        # a booking made twice, and a message that was taken twice
        ("INSERT INTO booking_effects SELECT * FROM booking_effects", (0, 1, 0)),
        (
            "INSERT INTO turnchain_turns (turn_id, orchestrator_name, session_id, run_id, status, stage, request_hash) "
            f"SELECT '{NO_TURN}', orchestrator_name, session_id, 'r', status, stage, '' FROM turnchain_turns LIMIT 1",
            (0, 1, 0),
        ),
        # a slot that is missing, and a session without any state
        (
            "UPDATE turnchain_checkpoints SET state = state #- '{Restaurants_2,time}' WHERE turn_index = 2",
            (0, 0, 1),
        ),
        ("DELETE FROM turnchain_checkpoints", (0, 0, 1)),
    ],
)
def test_what_is_lost_doubled_or_wrong_is_counted(
    played: str, statement: str, expected: tuple[int, int, int]
) -> None:
    change(played, statement)

    found = judge(played)

    assert counts(found) == expected
    assert not found.is_good


def test_a_turn_that_failed_is_not_good(played: str) -> None:
    change(played, "UPDATE turnchain_turns SET status = 'failed' WHERE turn_index = 1")

    found = judge(played)

    assert found.unhappy == 1
    assert not found.is_good


def test_iterations_that_began_twice_and_takeovers_are_counted(played: str) -> None:
    change(played, "INSERT INTO booking_runs SELECT * FROM booking_runs LIMIT 2")
    change(played, "UPDATE turnchain_turns SET takeovers = 2 WHERE turn_index = 1")

    found = judge(played)

    assert (found.rerun, found.takeovers) == (2, 2)
    assert found.is_good


def test_of_a_dialogue_that_was_not_begun_nothing_is_expected(played: str) -> None:

    with psycopg.connect(played) as connection:
        connection.execute("INSERT INTO booking_expected VALUES ('never', 3, '{}')")
    assert counts(judge(played)) == (3, 0, 1)

    leave_out(played, ["never"])

    assert judge(played).is_good
