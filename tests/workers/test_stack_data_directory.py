from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from turnchain.orchestrator_core.errors import SettingsError
from turnchain.workers.embedded import temporary_directory
from turnchain.workers.stack.data_directory import LOCK, claimed, usual_directory

CLAIMS = """
import sys
from pathlib import Path
from turnchain.workers.stack.data_directory import claimed
with claimed(Path(sys.argv[1])) as claim:
    claim.keep()
    print("claimed", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def home() -> Generator[Path]:
    with temporary_directory() as directory:
        yield directory


def test_a_missing_directory_is_made(home: Path) -> None:
    with claimed(home / "one/two") as claim:
        assert claim.path == (home / "one/two").resolve()
        assert (claim.path / ".gitignore").read_text() == "*\n"


def test_what_was_made_is_gone_where_nothing_is_worth_keeping(home: Path) -> None:
    with claimed(home / "one/two") as claim:
        (claim.path / "postgres").mkdir()
        (claim.path / "postgres/password").touch()

    assert list(home.iterdir()) == []


def test_an_empty_directory_of_the_users_is_emptied_but_left(home: Path) -> None:
    (home / "data").mkdir()

    with claimed(home / "data") as claim:
        (claim.path / "postgres").mkdir()

    assert list(home.rglob("*")) == [home / "data"]


def test_what_the_user_ignores_is_left_as_it_is(home: Path) -> None:
    with claimed(home / "data") as claim:
        (claim.path / ".gitignore").write_text("logs\n")
        claim.keep()

    with claimed(home / "data"):
        pass

    assert (home / "data/.gitignore").read_text() == "logs\n"


def test_a_project_that_has_a_postgres_of_its_own_is_something_else(home: Path) -> None:
    (home / "postgres").mkdir()
    (home / "postgres/init.sql").touch()

    with pytest.raises(SettingsError, match="holds something else"), claimed(home):
        pass

    assert {each.name for each in home.iterdir()} == {"postgres"}


def test_nobody_else_has_it_before_it_is_cleared(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []
    remove = shutil.rmtree

    def removing(path: Path, **given: Any) -> None:
        with pytest.raises(SettingsError) as error, claimed(home / "data"):
            pass
        refused.append(str(error.value))
        remove(path, **given)

    monkeypatch.setattr(shutil, "rmtree", removing)

    with claimed(home / "data") as claim:
        (claim.path / "postgres").mkdir()

    assert len(refused) == 1
    assert "is in use by process" in refused[0]


def test_what_is_kept_stays(home: Path) -> None:
    with claimed(home / "data") as claim:
        claim.keep()

    assert (home / "data" / LOCK).exists()


def test_a_failed_start_leaves_the_data_of_earlier_ones_alone(home: Path) -> None:
    with claimed(home / "data") as claim:
        (claim.path / "postgres").mkdir()
        claim.keep()

    with claimed(home / "data"):
        pass

    assert (home / "data/postgres").is_dir()


def test_only_one_has_it_at_a_time_and_the_other_is_told_who(home: Path) -> None:
    with (
        claimed(home / "data") as first,
        pytest.raises(SettingsError) as refused,
        claimed(home / "data"),
    ):
        pass

    assert f"{str(first.path)!r} is in use by process {os.getpid()}" in str(refused.value)
    # The second one took nothing away: that is for the first to do.
    assert list(home.iterdir()) == []


def test_the_lock_does_not_outlive_a_killed_process(home: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CLAIMS, str(home / "data")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout
        assert other.stdout.readline() == b"claimed\n"
        with pytest.raises(SettingsError, match=f"process {other.pid}"), claimed(home / "data"):
            pass
        other.kill()

    with claimed(home / "data") as claim:
        assert (claim.path / LOCK).read_text() == f"{os.getpid()}\n"


def test_a_file_in_its_place_is_refused_and_named(home: Path) -> None:
    (home / "file").write_text("precious")

    for directory in (home / "file", home / "file/deeper"):
        with pytest.raises(SettingsError, match=r"/file' is a file: name a directory"):
            claimed(directory).__enter__()

    assert (home / "file").read_text() == "precious"


def test_a_directory_of_somebody_elses_things_is_refused_and_left_alone(home: Path) -> None:
    (home / "thesis.tex").write_text("precious")

    with pytest.raises(SettingsError, match=r"holds something else \('thesis.tex'\)"):
        claimed(home).__enter__()

    assert [each.name for each in home.iterdir()] == ["thesis.tex"]


def test_a_new_file_system_counts_as_empty(home: Path) -> None:
    (home / "lost+found").mkdir()

    with claimed(home):
        pass

    assert [each.name for each in home.iterdir()] == ["lost+found"]


def test_a_directory_of_embedded_servers_is_one_of_ours(home: Path) -> None:
    (home / "postgres").mkdir()
    (home / "postgres/lock").touch()

    with claimed(home):
        pass

    assert (home / "postgres").is_dir()


@pytest.mark.skipif(sys.platform != "linux", reason="names a place where not even root may")
def test_where_nothing_can_be_made_it_is_refused_with_the_systems_words() -> None:
    with pytest.raises(SettingsError) as refused:
        claimed(Path("/sys/turnchain")).__enter__()

    assert re.fullmatch(
        r"'/sys/turnchain' cannot be used: [A-Z][a-z -]+; name another directory",
        str(refused.value),
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_without_rights_it_is_refused_and_left_alone(home: Path) -> None:
    (home / "data").mkdir(mode=0o500)

    with pytest.raises(SettingsError, match="cannot be used: Permission denied"):
        claimed(home / "data").__enter__()

    assert (home / "data").is_dir()


def test_the_usual_one_is_beside_the_project_but_for_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert usual_directory() == Path(".turnchain")

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert usual_directory() == Path("/var/lib/turnchain")
