"""What the demo shows on a terminal, and where there is none."""

from __future__ import annotations

import io

import pytest

from turnchain.examples.booking.screen import Screen


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")


def show(out: io.StringIO) -> str:
    screen = Screen(out)
    screen.say("a line with [brackets] and a word " + "x" * 200, style="red")
    with screen.playing(2):
        screen.answered(1)
        screen.tell("killed", "a turn", style="red")
        screen.answered(2)
    screen.table([("lost", 0), ("wrong", "none")])
    return out.getvalue()


def test_without_a_terminal_there_are_lines_and_no_escape_codes() -> None:
    shown = show(io.StringIO())

    assert "\x1b" not in shown
    assert "\r" not in shown
    assert shown.splitlines()[0] == "a line with [brackets] and a word " + "x" * 200
    assert "killed" in shown
    assert "2 of 2 turns answered" in shown


def test_without_a_terminal_progress_comes_now_and_then() -> None:
    out = io.StringIO()
    screen = Screen(out)

    with screen.playing(1000):
        for number in range(1, 1001):
            screen.answered(number)

    assert out.getvalue().count("turns answered") < 10


def test_on_a_terminal_there_is_a_bar_which_goes_when_all_is_played() -> None:
    shown = show(Terminal())

    assert "2/2" in shown
    assert "\x1b[2K" in shown  # erases the bar's line
    assert "turns answered" not in shown


def test_a_dumb_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")

    shown = show(Terminal())

    assert "\x1b" not in shown
    assert "2 of 2 turns answered" in shown


def test_a_table_is_aligned() -> None:
    rows = show(io.StringIO()).splitlines()[-2:]

    assert [row.split() for row in rows] == [["lost", "0"], ["wrong", "none"]]
    assert len({len(row) for row in rows}) == 1
