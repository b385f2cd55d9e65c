from __future__ import annotations

import importlib.util
import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from turnchain.orchestrator_core.errors import SettingsError
from turnchain.workers.settings import Settings
from turnchain.workers.stack import USUAL_PORTS, StackOptions

NOWHERE = Path("nowhere")
SETTINGS = Settings(postgres_url="postgresql://")


def options(**given: Any) -> StackOptions:
    return replace(StackOptions(NOWHERE, environ={}), **given)


def test_the_servers_urls_are_the_stacks_whatever_the_shell_says() -> None:
    shell = {"TURNCHAIN_POSTGRES_URL": "postgresql://production", "TURNCHAIN_LEASE": "9"}

    environ = options(environ=shell).environment("postgresql://ours", "redis://ours")

    assert environ["TURNCHAIN_POSTGRES_URL"] == "postgresql://ours"
    assert environ["TURNCHAIN_BROKER_URL"] == "redis://ours"
    assert environ["TURNCHAIN_LEASE"] == "9"


def test_what_libpq_would_listen_to_is_kept_from_the_processes() -> None:
    shell = {"PGSSLMODE": "verify-full", "PGOPTIONS": "-c statement_timeout=1", "PAGER": "less"}

    environ = options(environ=shell).environment("postgresql://ours", "redis://ours")

    assert not [name for name in environ if name.startswith("PG")]
    assert environ["PAGER"] == "less"


def test_a_wrong_setting_is_refused_before_anything_is_started() -> None:
    with pytest.raises(SettingsError, match="TURNCHAIN_MAX_ATTEMPTS = '0'"):
        options(environ={"TURNCHAIN_MAX_ATTEMPTS": "0"}, flower=False).check()


def test_the_urls_of_the_shell_are_not_even_read() -> None:
    shell = {"TURNCHAIN_POSTGRES_URL": "mysql://", "TURNCHAIN_BROKER_URL": "sqs://"}

    options(environ=shell, flower=False).check()


def test_a_port_that_is_given_twice_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    with pytest.raises(SettingsError, match=rf"port {port} for postgres .* \(it is given twice\)"):
        options(postgres_port=port, redis_port=port).check()


def test_flowers_port_does_not_matter_without_flower() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        options(flower_port=taken.getsockname()[1], flower=False).check()


def test_flower_may_be_missing_where_nobody_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    options(flower=False).check()
    with pytest.raises(SettingsError, match=r"pip install 'turnchain\[flower\]'.*--no-flower"):
        options().check()


def test_a_port_that_was_asked_for_is_the_only_one_tried() -> None:
    assert options(redis_port=7).ports("redis") == [7]
    assert next(iter(options().ports("redis"))) >= USUAL_PORTS["redis"]


def test_threads_are_sixteen_and_children_one_a_processor_unless_told_otherwise() -> None:
    assert options().width == 16
    assert 1 <= options(pool="prefork").width <= 1024
    assert options(pool="prefork", concurrency=3).width == 3


def test_postgres_admits_every_slot_of_every_worker() -> None:
    few, many = options(workers=1, concurrency=1), options(workers=8, concurrency=64)

    assert few.connections >= 100
    assert many.connections >= 8 * 64 * 3


def test_flower_comes_last_on_its_port() -> None:
    assert [row.name for row in options().table(SETTINGS)] == ["worker", "control", "beat"]
    assert options().flower_row(5556).environ["FLOWER_PORT"] == "5556"


def test_queues_of_single_stages_are_read_by_the_workers() -> None:
    settings = SETTINGS.model_copy(
        update={"stage_queues": {"dispatch": "models", "compact": "maintenance"}}
    )

    (worker, *_) = options().table(settings)

    command = worker.command()
    assert command[command.index("--queues") + 1] == "turns,models"
