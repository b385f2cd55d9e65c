from __future__ import annotations

import contextlib
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from turnchain.stores.conformance.exam import Given, id_of
from turnchain.workers.cli.output import aligned, printable, write_table
from turnchain.workers.settings import Settings


def test_columns_begin_below_one_another_and_nothing_trails() -> None:
    assert aligned([["A", "LONG", "Z"], ["aaaa", "b", ""]]) == ["A     LONG  Z", "aaaa  b"]


def test_what_would_not_show_is_escaped() -> None:
    assert printable("a\tb\x1b\x9b\u202e é☃") == r"a\tb\x1b\x9b\u202e é☃"


def test_a_terminal_gets_columns_that_fold_and_cut_no_id(given: Given) -> None:
    given.accepted("t1", session="a session with a name that is longer than the terminal is wide")

    text = "".join(_seen("turns", columns=100))

    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert text != plain
    assert "…" not in plain
    assert id_of("t1") in plain
    assert all(len(line.rstrip()) <= 100 for line in plain.splitlines())
    assert any(line.startswith(" ") for line in plain.splitlines())


@pytest.mark.parametrize("columns", range(40, 160, 7))
def test_a_terminal_of_any_width_shows_every_word(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What broke: the last letters of a folded line were cropped."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    texts = [(field.description or "") for field in Settings.model_fields.values()]
    rows = [
        [f"TURNCHAIN_{name.upper()}", text]
        for name, text in zip(Settings.model_fields, texts, strict=True)
    ]

    write_table(["VARIABLE", "MEANING"], rows, ["MEANING"])

    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    folded = ["".join(line[shown.index("MEANING") :].split()) for line in shown.splitlines()[1:]]
    assert "".join(folded) == "".join("".join(texts).split())


def test_a_terminal_that_is_too_narrow_wraps_and_cuts_nothing(given: Given) -> None:
    given.accepted("t1", session="a name of medium length")

    text = "".join(_seen("turns", columns=30))

    assert id_of("t1") in text
    assert "…" not in text


def test_a_text_that_the_terminal_cannot_write_is_escaped(given: Given) -> None:
    given.accepted("t1", session="☃")

    done = subprocess.run(
        [sys.executable, "-m", "turnchain.workers", "turns"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert r"\u2603" in done.stdout


def _seen(*arguments: str, columns: int) -> Iterator[str]:
    """What a person sees in a terminal of that width."""
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "turnchain.workers", *arguments],
        env={**os.environ, "COLUMNS": str(columns), "TERM": "xterm"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    with contextlib.suppress(OSError):  # how a terminal tells of its end
        while data := os.read(master, 4096):
            yield data.decode().replace("\r", "")
    os.close(master)
    assert process.wait(30) == 0


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "PYTHONIOENCODING"):
        monkeypatch.delenv(name, raising=False)
