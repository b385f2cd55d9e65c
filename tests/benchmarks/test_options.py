from __future__ import annotations

import pytest

from benchmarks.options import is_full, parse


def test_a_run_without_options_is_the_one_that_is_published() -> None:
    assert is_full(parse([]))


@pytest.mark.parametrize(
    "arguments",
    [
        ["--quick"],
        ["--only", "staged,noop7"],
        ["--parts", "rates"],
        ["--sessions", "8"],
        ["--rounds", "1"],
    ],
)
def test_a_part_of_a_run_is_not_published(arguments: list[str]) -> None:
    assert not is_full(parse(arguments))


def test_what_is_given_holds_in_a_quick_run_too() -> None:
    options = parse(["--quick", "--sessions", "64", "--only", "noop7, staged"])

    assert options.sessions == [64]
    assert options.only == ["noop7", "staged"]
    assert options.rounds == 1


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--only", "celery"], "'celery' is none of staged, inline, noop7, handwritten"),
        (["--parts", ""], "names no parts"),
        (["--sessions", "0"], "'0' is no number"),
        (["--seconds", "-1"], "'-1' is no number of seconds"),
    ],
)
def test_a_wrong_option_is_named(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        parse(arguments)

    assert stopped.value.code == 2
    assert named in capsys.readouterr().err
