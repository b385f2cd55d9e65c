"""Every setting from the environment: what it becomes, and the sentence that refuses it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnchain.orchestrator_core.contracts import Stage
from turnchain.orchestrator_core.errors import SettingsError
from turnchain.workers.settings import Settings, without_secrets

POSTGRES = {"TURNCHAIN_POSTGRES_URL": "postgresql://host/db"}
SECRET = "hunter2"


def read(**environ: str) -> Settings:
    return Settings.from_env({**POSTGRES, **environ})


def refusal(**environ: str) -> str:
    with pytest.raises(SettingsError) as refused:
        read(**environ)
    return str(refused.value)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)


# Every variable, what it may be, and what that becomes.
TAKEN: list[tuple[str, str, Any]] = [
    ("postgres_url", "postgresql://u:p@host:5432/db?sslmode=require", "postgresql://u:p@host:5432/db?sslmode=require"),
    ("postgres_url", "postgres://host/db", "postgres://host/db"),
    ("broker_url", "rediss://:p@host:6379/1", "rediss://:p@host:6379/1"),
    ("broker_url", "redis+socket:///run/redis.sock", "redis+socket:///run/redis.sock"),
    ("broker_url", "amqp://guest@host//", "amqp://guest@host//"),
    ("key_prefix", "shop:", "shop:"),
    ("orchestrators", "shop.support:support", ("shop.support:support",)),
    ("orchestrators", " a:b , c ,, ", ("a:b", "c")),
    ("orchestrators", "", ()),
    ("chain_mode", "inline", "inline"),
    ("stage_queues", "dispatch=models,compact=slow", {Stage.DISPATCH: "models", Stage.COMPACT: "slow"}),
    ("stage_queues", "", {}),
    ("lease", "30", seconds(30)),
    ("housekeeping", "0.25", seconds(0.25)),
    ("sweep_interval", "1e1", seconds(10)),
    ("rewake", "2", seconds(2)),
    ("rewake_longest", "600", seconds(600)),
    ("max_attempts", "1", 1),
    ("max_in_flight", "7", 7),
    ("lock_max_wait", "9", seconds(9)),
    ("hand_back_grace", "0.5", seconds(0.5)),
    ("dispatch_limit", "1800", seconds(1800)),
    ("stage_limit", "90", seconds(90)),
    ("log_level", "DEBUG", "DEBUG"),
    ("log_level", "warning", "WARNING"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "value"), TAKEN)
def test_a_variable_becomes_its_field(name: str, text: str, value: Any) -> None:
    assert getattr(read(**{f"TURNCHAIN_{name.upper()}": text}), name) == value


def test_a_message_has_the_time_of_all_the_stages_that_it_runs_in_place() -> None:
    settings = read(TURNCHAIN_CHAIN_MODE="inline", TURNCHAIN_STAGE_QUEUES="dispatch=models")
    everywhere = settings.in_place({"turns", "models"})
    turns = settings.in_place({"turns", "control"})

    assert settings.limit_of(Stage.PERSIST) == seconds(60)
    assert settings.limit_of(Stage.PERSIST, everywhere) == seconds(120)
    assert settings.limit_of(Stage.LOAD, everywhere) == seconds(6 * 60 + 900)
    # From the window on, the models' queue goes on.
    assert settings.limit_of(Stage.LOAD, turns) == seconds(4 * 60)
    assert read().in_place({"turns", "models"}) == frozenset()


def test_every_setting_is_in_the_table() -> None:
    assert {name for name, _, _ in TAKEN} == set(Settings.model_fields)


def test_one_variable_suffices() -> None:
    settings = Settings.from_env(POSTGRES)

    assert settings.lease == seconds(20)
    assert settings.housekeeping == seconds(2)
    assert settings.sweep_interval == seconds(5)
    assert settings.max_attempts == 3
    assert settings.max_in_flight is None
    assert settings.broker_url == "redis://127.0.0.1:6379/0"


def test_other_peoples_variables_are_left_alone() -> None:
    assert read(LEASE="1", turnchain_lease="1", TURNCHAIN_LEASES="1") == read()


# Every way to be wrong, and how the sentence begins and ends.
REFUSED: list[tuple[str, str, str]] = [
    ("POSTGRES_URL", "", "it must begin with postgresql://"),
    ("POSTGRES_URL", "mysql://host/db", "it must begin with postgresql://"),
    ("POSTGRES_URL", "host=localhost dbname=x", "it must begin with postgresql://"),
    ("BROKER_URL", "", "it must begin with one of redis://"),
    ("BROKER_URL", "http://host", "it must begin with one of redis://"),
    ("BROKER_URL", "memory://", "it must begin with one of redis://"),
    ("STAGE_QUEUES", "dispatch", "'dispatch' is no stage with a queue; write stage=queue"),
    ("STAGE_QUEUES", "dispatch=", "'dispatch' is no stage with a queue"),
    ("STAGE_QUEUES", "dispach=models", "'dispach' is no stage with a queue"),
    ("STAGE_QUEUES", "done=models", "'done' is no stage with a queue"),
    ("STAGE_QUEUES", "load=a,=b", "'' is no stage with a queue"),
    *(
        (name, text, "a number of seconds")
        for name in (
            "LEASE", "HOUSEKEEPING", "SWEEP_INTERVAL", "REWAKE", "REWAKE_LONGEST", "LOCK_MAX_WAIT",
            "HAND_BACK_GRACE", "DISPATCH_LIMIT", "STAGE_LIMIT",
        )
        for text in ("", "soon", "20s", "nan", "inf", "-inf", "1e300", "0x10")
    ),
    *((name, text, "greater than 0") for name in ("LEASE", "REWAKE") for text in ("0", "-1", "-0.5")),
    ("MAX_ATTEMPTS", "0", "greater than or equal to 1"),
    ("MAX_ATTEMPTS", "three", "valid integer"),
    ("MAX_ATTEMPTS", "2.5", "valid integer"),
    ("MAX_ATTEMPTS", "", "valid integer"),
    ("MAX_IN_FLIGHT", "0", "greater than or equal to 1"),
    ("MAX_IN_FLIGHT", "many", "valid integer"),
    ("LOG_LEVEL", "LOUD", "DEBUG, INFO, WARNING, ERROR or CRITICAL"),
    ("LOG_LEVEL", "", "DEBUG, INFO, WARNING, ERROR or CRITICAL"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "reason"), REFUSED)
def test_a_wrong_value_is_refused_by_variable_value_and_way_out(
    name: str, text: str, reason: str
) -> None:
    sentence = refusal(**{f"TURNCHAIN_{name}": text})

    assert sentence.startswith(f"TURNCHAIN_{name} = {text!r} is not usable: ")
    assert reason in sentence
    assert "\n" not in sentence


def test_a_missing_variable_says_what_it_would_be() -> None:
    with pytest.raises(
        SettingsError, match="TURNCHAIN_POSTGRES_URL is not set: set it, for example"
    ):
        Settings.from_env({})


def test_all_that_is_wrong_is_told_at_once() -> None:
    sentence = refusal(TURNCHAIN_LEASE="soon", TURNCHAIN_MAX_ATTEMPTS="0")

    assert "TURNCHAIN_LEASE" in sentence
    assert "TURNCHAIN_MAX_ATTEMPTS" in sentence


def test_housekeeping_must_come_three_times_a_lease() -> None:
    assert "more than a third of TURNCHAIN_LEASE = 5.0" in refusal(TURNCHAIN_LEASE="5")
    assert read(TURNCHAIN_LEASE="6").lease == seconds(6)


def test_housekeeping_must_come_three_times_a_heartbeat_that_counts() -> None:
    """What broke: with a round of ten seconds no process ever counted, and one turn ran at a time."""
    sentence = refusal(TURNCHAIN_HOUSEKEEPING="4", TURNCHAIN_LEASE="60")

    assert "TURNCHAIN_HOUSEKEEPING = 4.0 is more than a third of the 10 s" in sentence
    assert read(TURNCHAIN_HOUSEKEEPING="3.3", TURNCHAIN_LEASE="60").housekeeping == seconds(3.3)


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://user:{SECRET}@host/db",
        f"http://:{SECRET}@host",
        f"http://user:p@{SECRET}@host/db",
        f"http://{SECRET}@host/db",
        f"http://host/db?password={SECRET}",
        f"http://u:a://{SECRET}@host/db",
        f"user:{SECRET}@host",
    ],
)
@pytest.mark.parametrize("name", ["TURNCHAIN_POSTGRES_URL", "TURNCHAIN_BROKER_URL"])
def test_a_refused_url_shows_no_password(name: str, url: str) -> None:
    sentence = refusal(**{name: url})

    assert SECRET not in sentence
    assert "host" in sentence


@given(st.text(), st.text(st.characters(exclude_characters="@?")))
def test_what_stands_before_an_at_sign_is_never_shown(user: str, rest: str) -> None:
    assert without_secrets(f"redis://{user}\x01@{rest}") in (
        f"redis://…@{rest}",
        f"redis://{user.partition('?')[0]}?…" if "?" in user else "",
    )


def test_policies_are_made_of_the_settings() -> None:
    settings = read(
        TURNCHAIN_LEASE="30",
        TURNCHAIN_MAX_ATTEMPTS="5",
        TURNCHAIN_LOCK_MAX_WAIT="7",
        TURNCHAIN_MAX_IN_FLIGHT="9",
        TURNCHAIN_SWEEP_INTERVAL="2",
        TURNCHAIN_REWAKE="3",
        TURNCHAIN_REWAKE_LONGEST="4",
    )

    policy, numbers = settings.policy, settings.sweep_policy
    assert (policy.lease, policy.max_attempts) == (seconds(30), 5)
    assert (policy.lock_max_wait, policy.max_in_flight) == (seconds(7), 9)
    assert (numbers.interval, numbers.rewake_first, numbers.rewake_longest) == (
        seconds(2),
        seconds(3),
        seconds(4),
    )


def test_dispatch_has_a_limit_of_its_own() -> None:
    settings = read(TURNCHAIN_DISPATCH_LIMIT="100", TURNCHAIN_STAGE_LIMIT="10")

    assert settings.limit_of(Stage.DISPATCH) == seconds(100)
    assert {settings.limit_of(stage) for stage in Stage if stage is not Stage.DISPATCH} == {
        seconds(10)
    }
