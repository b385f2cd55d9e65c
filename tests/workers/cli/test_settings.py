from __future__ import annotations

import json
import re

import pytest

from tests.workers.cli.conftest import Command
from turnchain.workers.settings import Settings

URL = "postgresql://zoe:hunter2@db.example:5432/shop?password=hunter2"


def told(command: Command) -> dict[str, dict[str, str | None]]:
    lines = [json.loads(line) for line in command("settings", "--json").lines]
    return {line["name"]: line for line in lines}


@pytest.fixture(autouse=True)
def _url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNCHAIN_POSTGRES_URL", URL)


def test_every_setting_is_shown_with_its_meaning(command: Command) -> None:
    settings = told(command)

    assert list(settings) == list(Settings.model_fields)
    for name, setting in settings.items():
        assert list(setting) == ["name", "variable", "value", "source", "meaning"]
        assert setting["variable"] == f"TURNCHAIN_{name.upper()}"
        assert re.fullmatch(r".+\.", setting["meaning"] or ""), name


def test_a_default_is_shown_as_one_would_write_it(command: Command) -> None:
    """Whoever copies a value into the environment changes nothing."""
    settings = told(command)
    environ = {
        f"TURNCHAIN_{name.upper()}": setting["value"]
        for name, setting in settings.items()
        if setting["source"] == "default" and setting["value"] is not None
    }

    assert Settings.from_env({"TURNCHAIN_POSTGRES_URL": URL, **environ}) == Settings(
        postgres_url=URL
    )
    assert settings["lease"]["value"] == "20"
    assert settings["orchestrators"]["value"] is None
    assert settings["max_in_flight"]["value"] is None


def test_what_comes_from_the_environment_says_so(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNCHAIN_LEASE", "30")
    monkeypatch.setenv("TURNCHAIN_STAGE_QUEUES", "dispatch=models")

    settings = told(command)

    assert (settings["lease"]["value"], settings["lease"]["source"]) == ("30", "environment")
    assert settings["stage_queues"]["value"] == "dispatch=models"
    assert settings["rewake"]["source"] == "default"


def test_the_table_has_a_line_for_each(command: Command) -> None:
    done = command("settings")

    header, *lines = done.lines
    assert done.status == 0
    assert header.split() == ["VARIABLE", "VALUE", "SOURCE", "MEANING"]
    assert len(lines) == len(Settings.model_fields)
    assert all(line.startswith("TURNCHAIN_") for line in lines)


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_no_secret_is_shown(
    command: Command, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TURNCHAIN_BROKER_URL", "rediss://:hunter2@cache.example:6379/1")

    done = command("settings", *options)

    assert "hunter2" not in done.out + done.err
    assert "zoe" not in done.out + done.err
    assert "db.example:5432/shop" in done.out
    assert "cache.example:6379/1" in done.out


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("TURNCHAIN_LEASE", "soon", "TURNCHAIN_LEASE = 'soon' is not usable"),
        ("TURNCHAIN_POSTGRES_URL", "mysql://a:hunter2@h/d", "it must begin with postgresql://"),
        ("TURNCHAIN_LEASE", "5", "a lease could run out between two renewals"),
    ],
)
def test_a_wrong_setting_is_shown_and_said_in_a_sentence(
    command: Command, variable: str, value: str, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)

    done = command("settings")

    assert done.status == 2
    assert len(done.lines) == len(Settings.model_fields) + 1
    assert done.err.startswith("turnchain settings: TURNCHAIN_")
    assert says in done.err
    assert done.err.count("\n") == 1
    assert "hunter2" not in done.out + done.err


def test_a_newcomer_sees_what_there_is_to_set(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TURNCHAIN_POSTGRES_URL")

    done = command("settings")

    assert done.status == 2
    assert done.lines[1].split()[:3] == ["TURNCHAIN_POSTGRES_URL", "-", "default"]
    assert "TURNCHAIN_POSTGRES_URL is not set" in done.err
