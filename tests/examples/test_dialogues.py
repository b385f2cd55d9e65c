"""Reading dialogues: what a file holds, which line is wrong, and what every session must come to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnchain.examples.booking.__main__ import main
from turnchain.examples.booking.bot import SERVICES, family
from turnchain.examples.booking.dialogues import SAMPLE, Dialogue, read


def frame(service: str = "Hotels_1", **slots: str) -> dict[str, Any]:
    return {
        "service": service,
        "intent": "Search",
        "slots": {key: [value] for key, value in slots.items()},
    }


def line(name: str = "d1", *turns: dict[str, Any]) -> str:
    return json.dumps({"dialogue_id": name, "services": ["Hotels_1"], "turns": turns})


def turn(*frames: dict[str, Any], user: str = "hi", system: str | None = "yes?") -> dict[str, Any]:
    return {"user": user, "frames": frames, "calls": [], "system": system}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "dialogues.jsonl"


def test_a_file_is_read_line_by_line_and_blank_lines_are_none(file: Path) -> None:
    file.write_text(f"{line('d1', turn(frame(city='Bergen')))}\n\n  \n{line('d2')}\n")

    dialogues = read(file)

    assert [each.dialogue_id for each in dialogues] == ["d1", "d2"]
    assert dialogues[0].turns[0].frames[0].slots == {"city": ["Bergen"]}
    assert dialogues[1].turns == []


def test_keys_that_nobody_asked_for_are_left_out(file: Path) -> None:
    file.write_text(json.dumps({**json.loads(line("d1")), "added": "later"}))

    assert read(file)[0].dialogue_id == "d1"


@pytest.mark.parametrize(
    "wrong",
    [
        "{",
        "7",
        "null",
        "[]",
        "{}",
        json.dumps({"dialogue_id": "d", "services": [], "turns": [{"user": "hi"}]}),
        json.dumps({"dialogue_id": 7, "services": [], "turns": []}),
        line("d3", turn({"service": "Hotels_1", "intent": "x", "slots": {"city": "Bergen"}})),
    ],
)
def test_a_line_that_is_no_dialogue_is_named(file: Path, wrong: str) -> None:
    file.write_text(f"{line('d1')}\n\n{wrong}\n")

    with pytest.raises(ValueError, match=r"dialogues\.jsonl, line 3: not a dialogue: ") as refused:
        read(file)

    assert "\n" not in str(refused.value)


def test_a_dialogue_that_stands_there_twice_is_named(file: Path) -> None:
    """Two of one session would play each other's turns."""
    file.write_text(f"{line('d1')}\n{line('d2')}\n{line('d1')}\n")

    with pytest.raises(ValueError, match="line 3: dialogue 'd1' stands there twice"):
        read(file)


def test_bytes_that_are_no_text_are_refused(file: Path) -> None:
    file.write_bytes(b"\xff\xfe\n")

    with pytest.raises(ValueError, match="utf-8"):
        read(file)


def dialogue(*turns: dict[str, Any]) -> Dialogue:
    return Dialogue.model_validate_json(line("d", *turns))


def test_later_values_stand_over_earlier_ones_service_by_service() -> None:
    found = dialogue(
        turn(frame(city="Bergen", nights="2")),
        turn(frame(city="Oslo"), frame("Weather_1", city="Voss")),
        turn(frame("Weather_1", day="Monday")),
        turn(),
    ).expected_state()

    assert found == {
        "Hotels_1": {"city": ["Oslo"], "nights": ["2"]},
        "Weather_1": {"city": ["Voss"], "day": ["Monday"]},
    }


def test_a_frame_without_slots_is_there_all_the_same() -> None:
    assert dialogue(turn(frame())).expected_state() == {"Hotels_1": {}}
    assert dialogue().expected_state() == {}


slots = st.dictionaries(st.sampled_from(["city", "day", "seats"]), st.lists(st.text(), max_size=2))
frames = st.lists(
    st.tuples(st.sampled_from(["Hotels_1", "Hotels_2", "Weather_1"]), slots), max_size=3
)


@given(st.lists(frames, max_size=6))
def test_the_state_after_a_turn_is_that_of_the_turns_before_under_its_slots(
    spoken: list[list[tuple[str, dict[str, list[str]]]]],
) -> None:
    """As the format's description says it, turn by turn."""
    turns = [
        turn(*({"service": service, "intent": "x", "slots": given} for service, given in each))
        for each in spoken
    ]
    state: dict[str, dict[str, list[str]]] = {}
    for number, each in enumerate(spoken, 1):
        for service, given_slots in each:
            state = {**state, service: {**state.get(service, {}), **given_slots}}
        assert dialogue(*turns[:number]).expected_state() == state


def test_the_history_of_a_turn_is_what_was_said_before_it() -> None:
    found = dialogue(
        turn(user="one", system="two"), turn(user="three", system=None), turn(user="four")
    )

    assert found.history(0) == []
    assert found.history(1) == [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"},
    ]
    assert found.history(2)[2:] == [{"role": "user", "content": "three"}]


def test_the_sample_is_of_several_kinds() -> None:
    """Several services in one turn, calls, slots that change, an end on the user's words."""
    sample = read(SAMPLE)
    turns = [each for one in sample for each in one.turns]

    assert len(sample) >= 3
    assert any(len({each.service for each in one.frames}) > 1 for one in turns)
    assert any(one.calls for one in turns)
    assert {family(each.service) for one in turns for each in one.frames} <= set(SERVICES)
    assert any(len(one.turns) > 1 for one in sample)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{\n", "line 1: not a dialogue"),
        ("", "holds no dialogue"),
        (
            '{"dialogue_id": "d", "services": ["Spaceships_1"], "turns": [{"user": "hi", "frames": []}]}',
            "services ['Spaceships_1'] are not served; served are",
        ),
    ],
)
def test_a_file_that_cannot_be_played_ends_the_player_with_one_sentence(
    file: Path, capsys: pytest.CaptureFixture[str], text: str, told: str
) -> None:
    file.write_text(text)

    assert main(["--dialogues", str(file)]) == 2

    err = capsys.readouterr().err
    assert told in err
    assert err.count("\n") == 1


def test_a_file_that_is_not_there_ends_the_player_with_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--dialogues", str(tmp_path / "none.jsonl")]) == 2

    assert "none.jsonl" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options", [["--workers", "0"], ["--sessions", "-1"], ["--pool", "gevent"]]
)
def test_options_that_make_no_sense_are_refused(
    options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(options)

    assert ended.value.code == 2
    assert options[0] in capsys.readouterr().err
