from __future__ import annotations

from argparse import ArgumentParser
from importlib import import_module

import pytest

from tests.workers.cli.conftest import Command
from turnchain.orchestrator_core.errors import TurnchainError
from turnchain.workers.cli import COMMANDS, turns


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_a_module_with_a_line_of_help(command: Command, name: str) -> None:
    module = import_module(f"turnchain.workers.cli.{name}")

    module.add_arguments(ArgumentParser())
    assert module.SUMMARY in " ".join(command(name, "--help").out.split())
    assert module.SUMMARY.split()[0] in command("--help").out


def test_without_a_command_there_is_a_usage(command: Command) -> None:
    done = command()

    assert (done.status, done.out) == (2, "")
    assert "usage: turnchain" in done.err


def test_what_cannot_be_done_is_one_sentence(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: object) -> int:
        raise TurnchainError("the moon is full: wait")

    monkeypatch.setattr(turns, "run", fails)

    done = command("turns")

    assert (done.status, done.err) == (2, "turnchain turns: the moon is full: wait\n")


def test_ctrl_c_ends_a_question_quietly(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def is_interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(turns, "run", is_interrupted)

    done = command("turns")

    assert (done.status, done.out, done.err) == (130, "", "")
