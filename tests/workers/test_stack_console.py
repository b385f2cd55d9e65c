from __future__ import annotations

import errno
import io
import json
import os
from pathlib import Path

import pytest

from turnchain.workers.stack.console import Console, LogFiles, readable


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def never() -> None:
    raise AssertionError("nobody closed it")


def test_each_line_begins_with_the_name_of_who_said_it() -> None:
    stream = io.StringIO()
    console = Console(stream, on_closed=never)

    console.write("worker1", "hello")
    console.write("worker1", "")
    console.write("beat", "hello")

    assert stream.getvalue() == "worker1   | hello\nbeat      | hello\n"


@pytest.mark.parametrize(
    ("level", "message", "is_shown"),
    [
        ("INFO", "Scheduler: Sending due task turnchain-drain (turn.drain)", False),
        ("INFO", "Task turn.drain[bd978d2e-e485] received", False),
        ("INFO", "Task turn.drain[bd978d2e-e485] succeeded in 0.04s: None", False),
        ("ERROR", "Task turn.drain[bd978d2e-e485] raised unexpected: KeyError", True),
        ("INFO", "Task turn.load[bd978d2e-e485] received", True),
    ],
)
def test_the_routine_of_every_five_seconds_is_not_shown(
    level: str, message: str, is_shown: bool
) -> None:
    stream = io.StringIO()
    line = {"ts": "2026-11-30T22:29:22.838+00:00", "level": level, "message": message}

    Console(stream, on_closed=never).write("control", json.dumps(line))

    assert (message in stream.getvalue()) == is_shown


def test_names_have_colours_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    stream = Terminal()
    console = Console(stream, on_closed=never)

    for name in ("worker1", "beat", "worker1"):
        console.write(name, "hello")

    first, other, again = stream.getvalue().splitlines()
    assert first == again == "\033[36mworker1   |\033[0m hello"
    assert other == "\033[33mbeat      |\033[0m hello"


def test_no_colours_where_the_user_wants_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()

    Console(stream, on_closed=never).write("worker1", "hello")

    assert stream.getvalue() == "worker1   | hello\n"


def test_our_json_lines_are_shown_as_a_person_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {**os.environ, "TZ": "UTC"})
    line = {
        "ts": "2026-11-30T22:29:22.838+00:00",
        "level": "WARNING",
        "logger": "turnchain.workers",
        "message": "lease lost",
        "turn_id": "0f3",
        "stage": "dispatch",
    }

    shown = readable(json.dumps(line))

    assert shown.endswith(":22 WARNING lease lost turn_id=0f3 stage=dispatch")
    assert "INFO" not in readable(json.dumps({**line, "level": "INFO"}))


def test_an_exception_is_shown_with_the_place_it_was_raised_at() -> None:
    line = {
        "ts": "2026-11-30T22:29:22.838+00:00",
        "level": "ERROR",
        "message": "failed",
        "exception": "ValueError",
        "raised_at": ["a.py:1", "b.py:2"],
    }

    assert readable(json.dumps(line)).endswith("ERROR failed (ValueError at b.py:2)")


@pytest.mark.parametrize("line", ["plain", "[1]", "7", "{", '{"ts": 1}', '{"message": "x"}', ""])
def test_every_other_line_is_shown_as_it_is(line: str) -> None:
    assert readable(line) == line


def test_a_reader_that_goes_away_is_noticed_once_and_leaves_nothing_to_flush() -> None:
    noticed: list[str] = []
    reader, writer = os.pipe()
    os.close(reader)

    with os.fdopen(writer, "w") as pipe:
        console = Console(pipe, on_closed=lambda: noticed.append("closed"))
        console.write("worker1", "hello")
        console.write("worker1", "hello")

    assert noticed == ["closed"]


def test_a_full_disk_stops_nothing() -> None:
    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    console = Console(Full(), on_closed=never)

    console.write("worker1", "hello")
    console.write("worker1", "hello")


def test_what_a_process_says_does_nothing_to_a_terminal() -> None:
    line = {"ts": "2026-11-30T22:29:22+00:00", "level": "INFO", "message": "\x1b]0;mine\x07\nb"}
    stream = io.StringIO()

    Console(stream, on_closed=never).write("worker1", json.dumps(line))
    Console(stream, on_closed=never).write("worker1", "a\tb \x1b[2J")

    first, second = stream.getvalue().splitlines()
    assert first.endswith(r"\x1b]0;mine\x07\nb")
    assert second == r"worker1   | a       b \x1b[2J"


def test_what_the_stream_cannot_show_is_spelled_out() -> None:
    raw = io.BytesIO()
    console = Console(io.TextIOWrapper(raw, encoding="ascii"), on_closed=never)

    console.write("worker1", "caf\u00e9")

    assert raw.getvalue() == b"worker1   | caf\\xe9\n"


def test_log_files_hold_what_each_has_said_in_this_run(tmp_path: Path) -> None:
    (tmp_path / "beat.log").write_text("an earlier run\n")
    logs = LogFiles(tmp_path)

    logs.write("worker1", "one")
    logs.write("beat", "two")
    logs.write("worker1", "three")

    assert (tmp_path / "worker1.log").read_text() == "one\nthree\n"
    assert (tmp_path / "beat.log").read_text() == "two\n"
