"""The process table, and the compose file that follows it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import psycopg
import pytest
import yaml

from turnchain.orchestrator_core import wire
from turnchain.workers.process_table import Process, processes

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
SCHEMA = json.loads(Path(__file__).with_name("compose_spec.json").read_text())
OF_OTHERS = {"postgres", "redis"}


def row(name: str, **options: Any) -> Process:
    (found,) = [each for each in processes(**options) if each.name == name]
    return found


def after(command: tuple[str, ...], option: str) -> str:
    return command[command.index(option) + 1]


def test_every_queue_is_read_and_stages_have_workers_of_their_own() -> None:
    read = {
        name: set(after(row(name).command(), "--queues").split(","))
        for name in ("worker", "control")
    }

    assert read["worker"] == {wire.TURNS_QUEUE}
    assert read["worker"] | read["control"] == set(wire.QUEUES)


def test_several_workers_of_one_host_have_numbers_that_stay() -> None:
    workers = row("worker", workers=2)

    assert workers.names == ["worker1", "worker2"]
    assert after(workers.command("worker2"), "--hostname") == "worker2@%h"
    assert row("control").names == ["control"]


def test_a_stage_with_a_queue_of_its_own_is_read_by_workers() -> None:
    command = row("worker", queues=("turns", "models")).command()

    assert after(command, "--queues") == "turns,models"


def test_the_compose_file_fits_the_schema_of_compose_files() -> None:
    jsonschema.Draft7Validator(SCHEMA).validate(COMPOSE)


def test_the_schema_notices_what_is_wrong() -> None:
    wrong = {**COMPOSE, "services": {**SERVICES, "worker": {"comand": ["celery"]}}}

    with pytest.raises(jsonschema.ValidationError, match="comand"):
        jsonschema.Draft7Validator(SCHEMA).validate(wrong)


def test_every_row_is_a_service_with_the_very_same_command() -> None:
    told = {
        name: service["command"]
        for name, service in SERVICES.items()
        if name not in {*OF_OTHERS, "schema"}
    }

    assert told == {row.name: ["python", *row.command()] for row in processes()}


def test_there_are_as_many_of_each_as_the_table_says() -> None:
    told = {
        each.name: SERVICES[each.name].get("deploy", {}).get("replicas", 1) for each in processes()
    }

    assert told == {each.name: each.count for each in processes()}


def test_a_service_is_given_the_variables_that_its_row_names() -> None:
    for each in processes():
        assert set(each.environ) <= set(SERVICES[each.name]["environment"]), each.name


def test_every_process_has_the_same_settings() -> None:
    settings = [
        {
            name: value
            for name, value in SERVICES[each.name]["environment"].items()
            if "FLOWER" not in name
        }
        for each in processes()
    ]

    assert settings[0]["TURNCHAIN_POSTGRES_URL"].startswith("postgresql://")
    assert all(each == settings[0] for each in settings)


def test_our_processes_come_back_and_have_time_to_end() -> None:
    for each in processes():
        service = SERVICES[each.name]
        assert service["restart"] == "unless-stopped"
        assert service["init"] is True
        assert service["depends_on"]["schema"] == {"condition": "service_completed_successfully"}
        assert int(service["stop_grace_period"].removesuffix("s")) >= (20 if each.is_worker else 5)


def test_the_servers_keep_their_data_and_say_when_they_are_ready() -> None:
    for name in OF_OTHERS:
        assert SERVICES[name]["volumes"][0].split(":")[0] in COMPOSE["volumes"]
        assert SERVICES[name]["healthcheck"]["test"]
        for each in processes():
            assert SERVICES[each.name]["depends_on"][name] == {"condition": "service_healthy"}


def test_nothing_is_published_beyond_this_machine() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]

    assert len(ports) == 3
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_the_schema_service_makes_the_tables(empty_database_url: str) -> None:
    python, *arguments = SERVICES["schema"]["command"]
    assert python == "python"

    for _ in range(2):  # every `up` runs it again
        done = subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, "TURNCHAIN_POSTGRES_URL": empty_database_url},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")

    with psycopg.connect(empty_database_url) as connection:
        assert connection.execute("SELECT count(*) FROM turnchain_turns").fetchone() == (0,)


def test_the_schema_service_says_in_one_sentence_why_it_could_not() -> None:
    arguments = SERVICES["schema"]["command"][1:]

    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "TURNCHAIN_POSTGRES_URL": "postgresql://127.0.0.1:1/none"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 2
    assert done.stderr.startswith("turnchain: ")
    assert done.stderr.count("\n") == 1


def test_the_image_has_what_the_compose_file_names() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()

    conf = SERVICES["flower"]["environment"]["FLOWER_CONF"]
    assert f"{conf}\n" in dockerfile
    assert 'files("turnchain.workers") / "flowerconfig.py"' in dockerfile
    assert (ROOT / "workers/flowerconfig.py").is_file()
    (extras,) = re.findall(r"/src\[([\w,]+)\]", dockerfile)
    assert set(extras.split(",")) == {"worker", "flower"}
