"""Flower's settings: as Flower takes them from the file, and what its pages make of a task."""

from __future__ import annotations

import copy
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from celery.events.state import Task
from flower.options import options as defined
from flower.views.tasks import TASK_COLUMNS
from tornado.options import OptionParser

from turnchain.tasks.telling import State
from turnchain.workers import flowerconfig
from turnchain.workers.settings import Settings

PATH = Path(flowerconfig.__file__)
TURN = "9a3b5a3e-3f5e-4e0c-8a58-6c1b1d1f8f10"
SECRET = "what a person wrote"
SET = {
    "address", "read_only", "max_tasks", "tasks_columns", "task_runtime_metric_buckets",
    "purge_offline_workers", "format_task",
}  # fmt: skip


def executed(monkeypatch: pytest.MonkeyPatch, **environ: str) -> OptionParser:
    """Flower's options after it has executed the file in such an environment."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    options = OptionParser()
    vars(options)["_options"] = {
        name: copy.copy(option) for name, option in vars(defined)["_options"].items()
    }
    options.parse_config_file(str(PATH), final=False)
    return options


def names_set(monkeypatch: pytest.MonkeyPatch, **environ: str) -> set[str]:
    """Which options the file sets, and not merely imports under another option's name."""
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    known = {name.replace("-", "_") for name in defined.as_dict()}
    return set(runpy.run_path(str(PATH))) & known


def shown(**fields: Any) -> Task:
    """A task, as a page shows it."""
    return flowerconfig.format_task(Task(**fields))


def test_the_file_sets_these_options_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flower ignores a name that it does not know, and takes an import called like an option for a setting."""
    assert names_set(monkeypatch) == SET
    assert names_set(monkeypatch, TURNCHAIN_FLOWER_BASIC_AUTH="a:b") == SET | {"basic_auth"}


def test_flower_takes_every_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    options = executed(monkeypatch, TURNCHAIN_FLOWER_BASIC_AUTH="ann:one, bob:two:three")

    assert (options.address, options.port, options.read_only) == ("127.0.0.1", 5555, True)
    assert options.basic_auth == ["ann:one", "bob:two:three"]
    assert options.max_tasks == 5000
    assert {*options.tasks_columns.split(",")} <= {*TASK_COLUMNS}
    assert options.format_task.__name__ == "format_task"


def test_run_times_have_buckets_from_a_millisecond_to_the_longest_dispatch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    buckets = executed(monkeypatch).task_runtime_metric_buckets

    assert buckets == sorted(buckets)
    assert (buckets[0], buckets[-1]) == (0.001, 900.0)
    assert len(buckets) <= 15, "each is a series for every worker and task"


def test_flowers_own_variables_go_before_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"FLOWER_ADDRESS": "::1", "FLOWER_READ_ONLY": "0", "FLOWER_BASIC_AUTH": "c:d"}

    found = names_set(monkeypatch, **given, TURNCHAIN_FLOWER_BASIC_AUTH="a:b")

    assert found == SET - {"address", "read_only"}


@pytest.mark.parametrize("value", ["", None])
def test_without_accounts_there_is_no_authentication(
    monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    given = {} if value is None else {"TURNCHAIN_FLOWER_BASIC_AUTH": value}

    assert executed(monkeypatch, **given).basic_auth == []


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ("hunter2", "1 of 1"),
        (":hunter2", "1 of 1"),
        ("ann:", "1 of 1"),
        ("ann:one,hunter2", "2 of 2"),
        ("ann:one,,bob:two", "2 of 3"),
        ("ann:hünter2", "1 of 1"),
        (",", "1 of 2"),
    ],
)
def test_a_wrong_account_is_one_sentence_without_it(
    monkeypatch: pytest.MonkeyPatch, value: str, place: str
) -> None:
    with pytest.raises(SystemExit) as refused:
        executed(monkeypatch, TURNCHAIN_FLOWER_BASIC_AUTH=value)

    said = str(refused.value)
    assert said.startswith("turnchain: TURNCHAIN_FLOWER_BASIC_AUTH is not usable")
    assert f"entry {place}" in said
    assert "nter2" not in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("name", "arguments", "readable"),
    [
        ("turn.load", f"('{TURN}', 0)", f"turn {TURN}, fence 0"),
        ("turn.dispatch", f"['{TURN}', 12]", f"turn {TURN}, fence 12"),
        (
            "turn.takeover",
            f"('{TURN}', 'dispatch', 3, 'host-1.local:0a1b2c3d:42')",
            f"turn {TURN}, fence 3",
        ),
        ("turn.queue", f"('{TURN}', 0)", f"turn {TURN}, fence 0"),
        ("turn.drain", "()", ""),
    ],
)
def test_our_arguments_are_readable(name: str, arguments: str, readable: str) -> None:
    task = shown(name=name, args=arguments, kwargs="{}", result="None")

    assert (task.args, task.kwargs, task.result) == (readable, "", "")


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("shop.mail", f"('{SECRET}',)"),
        ("shop.mail", f"('{TURN}', 0)"),
        ("turn.load", f"('{SECRET}', 0)"),
        ("turn.load", f"('{TURN}', 0, '{SECRET}')"),
        ("turn.load", f"('{TURN}', 0) {SECRET}"),
        (None, f"('{SECRET}',)"),
    ],
)
def test_what_our_code_did_not_send_is_not_shown(name: str | None, arguments: str) -> None:
    task = shown(name=name, args=arguments, kwargs=f"{{'say': '{SECRET}'}}")

    assert (task.args, task.kwargs) == ("(not shown)", "(not shown)")


def test_a_result_is_shown_of_our_tasks_only() -> None:
    assert shown(name="turn.load", result="waited 0.004 s").result == "waited 0.004 s"
    assert shown(name="shop.mail", result=f"'{SECRET}'").result == "(not shown)"
    assert shown(name="shop.mail", result="None").result == ""


@pytest.mark.parametrize(
    ("name", "raised", "readable"),
    [
        ("turn.load", "StageFailed: X in load of turn y", "StageFailed: X in load of turn y"),
        ("turn.dispatch", "WorkerLostError: signal 9", "WorkerLostError: signal 9"),
        ("turn.load", f"ValueError('{SECRET}')", "ValueError"),
        ("shop.mail", f"StageFailed('{SECRET}')", "StageFailed"),
        ("shop.mail", f"<{SECRET}>", "(not shown)"),
    ],
)
def test_of_an_exception_that_may_quote_content_only_its_kind_is_shown(
    name: str, raised: str, readable: str
) -> None:
    task = shown(name=name, exception=raised, traceback=f"Traceback … {raised}")

    assert task.exception == task.result == readable
    assert SECRET not in (task.traceback or "")


def test_the_guide_explains_every_state_and_names_our_variables() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "flower.md").read_text()

    for state in State:
        assert f"| `{state.upper()}` |" in guide
    assert flowerconfig.AUTH_VARIABLE in guide
    variables = set(re.findall(r"TURNCHAIN_(\w+)", guide)) - {"FLOWER_BASIC_AUTH"}
    assert variables <= {name.upper() for name in Settings.model_fields}


def test_a_task_of_which_only_a_late_event_came_is_shown() -> None:
    """Flower began to listen in the middle of it: there are neither name nor arguments."""
    task = shown(uuid=f"{TURN}:load:0.0a1b2c3d", state="SUCCESS", result="None")

    assert (task.args, task.kwargs, task.result) == ("", "", "")
