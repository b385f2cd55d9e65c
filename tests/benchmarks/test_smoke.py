from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from benchmarks.contenders import CONTENDERS
from benchmarks.counting import count
from benchmarks.recovery import Killed, recover
from benchmarks.stand import Stand
from benchmarks.work import Shape
from tests.servers import new_database_name

pytestmark = pytest.mark.acceptance


@pytest.fixture
def stand(postgres_url: str, redis_url: str, key_prefix: str, tmp_path: Path) -> Stand:
    """The tests' own servers as a benchmark's."""
    name = new_database_name(postgres_url)
    return Stand(postgres_url, redis_url, tmp_path, "prefork", 2, name=name, key_prefix=key_prefix)


@pytest.mark.parametrize("name", ["staged", "noop7"])
def test_a_contender_answers_turns_and_leaves_nothing(
    name: str, stand: Stand, key_prefix: str
) -> None:
    contender = CONTENDERS[name]

    with stand.place(name) as place, contender.running(stand, place) as running:
        for shape in contender.shapes:
            running.play(f"a session of {shape}", shape)
        running.settle()

    assert stand.keys(key_prefix) == []
    with psycopg.connect(stand.postgres_url) as connection:
        left = "SELECT datname FROM pg_database WHERE starts_with(datname, %s)"
        assert connection.execute(left, (stand.name,)).fetchall() == []


def test_a_counting_pass_sees_the_turns_commits_and_bytes(stand: Stand) -> None:
    counted = count(stand, CONTENDERS["handwritten"], Shape.FIVE, turns=40)

    # One commit to load and five to save; the worker's start and the tables come on top.
    assert 6 <= counted.commits < 8
    # Five texts of 2 kB, each stored once.
    assert 10_000 < counted.table_bytes["handwritten_messages"] < 20_000
    assert [key for key in counted.keys_left if "_kombu." not in key] == []


def test_the_hand_written_task_goes_on_where_its_child_was_killed(stand: Stand) -> None:
    recovered = recover(stand, CONTENDERS["handwritten"], Killed.CHILD)

    assert recovered.seconds is not None
    assert recovered.rerun == 1
