from __future__ import annotations

import logging
import subprocess
import sys
import time
from collections.abc import Generator

import psycopg
import pytest
from psycopg.sql import SQL, Identifier

from turnchain.orchestrator_core.contracts import Stage, TurnWork
from turnchain.orchestrator_core.errors import (
    SchemaMissingError,
    SettingsError,
    StoreUnavailableError,
)
from turnchain.stores.conformance.exam import Given, id_of
from turnchain.stores.postgres import PostgresStores, connect

NOWHERE = "postgresql://ann:s3cret@127.0.0.1:1/shop"


@pytest.fixture
def without_schema(empty_database_url: str) -> Generator[PostgresStores]:
    stores = connect(empty_database_url)
    yield stores
    stores.close()


def test_connecting_opens_nothing() -> None:
    connect(NOWHERE).close()


def test_an_unreachable_server_is_named_within_seconds_and_without_the_password(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    stores = connect(NOWHERE)
    began = time.monotonic()

    with pytest.raises(StoreUnavailableError) as caught:
        stores.ledger.get(id_of("t1"))
    took = time.monotonic() - began
    stores.close()

    assert took < 5
    assert "127.0.0.1:1, database shop" in str(caught.value)
    assert "refused" in str(caught.value)
    assert "s3cret" not in f"{caught.value!r} {caught.value.context} {caplog.text}"


def test_a_silent_host_is_given_up_within_seconds() -> None:
    """192.0.2.0/24 is routed nowhere (RFC 5737): nothing refuses, nothing answers."""
    stores = connect("postgresql://192.0.2.1/shop")
    began = time.monotonic()

    with pytest.raises(StoreUnavailableError, match=r"192\.0\.2\.1"):
        stores.ledger.get(id_of("t1"))
    took = time.monotonic() - began
    stores.close()

    assert took < 6


def test_listening_needs_the_server_too() -> None:
    with pytest.raises(StoreUnavailableError), connect(NOWHERE).ledger.listen():
        pytest.fail("connected")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql//ann:s3cret@host/db",
        "s3cret",
        "postgresql://ann:pass@s3cret@host/db",
        "postgresql://ann:s3cret/word@host/db",
        "postgresql://host:s3cret/db",
    ],
)
def test_a_url_that_cannot_be_read_is_not_quoted(url: str) -> None:
    with pytest.raises(SettingsError) as caught:
        connect(url)

    assert "s3cret" not in f"{caught.value!r}{caught.value.__cause__!r}"


def test_sqlalchemys_spelling_of_the_url_is_taken(database_url: str) -> None:
    stores = connect(database_url.replace("postgresql://", "postgresql+psycopg://"))

    assert stores.ledger.get(id_of("t1")) is None
    stores.close()


def test_a_missing_schema_says_what_to_run(without_schema: PostgresStores) -> None:
    for call in (
        lambda: without_schema.ledger.get(id_of("t1")),
        lambda: without_schema.ledger.admit(),
        lambda: without_schema.checkpoints.list("bot"),
        lambda: without_schema.snapshots.load("run"),
    ):
        with pytest.raises(SchemaMissingError, match="turnchain schema"):
            call()


@pytest.mark.parametrize(("durable", "commit"), [(True, "on"), (False, "off")])
def test_sessions_have_our_settings(
    stores: PostgresStores, direct: psycopg.Connection, durable: bool, commit: str
) -> None:
    direct.execute(
        "CREATE FUNCTION shown(name text) RETURNS text LANGUAGE sql RETURN current_setting(name)"
    )
    with stores.connections._borrowed(durable) as connection:
        shown = {
            name: connection.execute("SELECT shown(%s) AS value", [name]).fetchone()
            for name in (
                "synchronous_commit",
                "statement_timeout",
                "lock_timeout",
                "idle_in_transaction_session_timeout",
                "default_transaction_isolation",
                "application_name",
                "TimeZone",
            )
        }

    assert {name: row and row["value"] for name, row in shown.items()} == {
        "synchronous_commit": commit,
        "statement_timeout": "30s",
        "lock_timeout": "5s",
        "idle_in_transaction_session_timeout": "10s",
        "default_transaction_isolation": "read committed",
        "application_name": "turnchain",
        "TimeZone": "UTC",
    }


def test_a_server_that_hung_up_meanwhile_costs_nothing(
    stores: PostgresStores, given: Given, direct: psycopg.Connection
) -> None:
    """Idle connections that died are noticed before they are used: also a unit goes through."""
    claim = given.claimed("t1")
    given.accepted("t2")
    _hang_up(direct)

    with stores.ledger.unit(claim, durable=False) as unit:
        unit.hand_over(Stage.DRIFT, TurnWork())
    _hang_up(direct)

    assert given.accepted("t3").created


@pytest.mark.long
def test_a_server_that_is_back_is_found_at_once(
    stores: PostgresStores, postgres_url: str, direct: psycopg.Connection
) -> None:
    """However long it was away: no connection attempt may still sit in its back-off."""
    name = Identifier(direct.info.dbname)
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(name))
        _hang_up(direct)
        away_until = time.monotonic() + 25
        while time.monotonic() < away_until:
            with pytest.raises(StoreUnavailableError):
                stores.ledger.get(id_of("t1"))
        admin.execute(SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(name))

    assert stores.ledger.get(id_of("t1")) is None


def test_all_connections_busy_is_said(database_url: str) -> None:
    stores = connect(database_url, max_size=1)
    refused = pytest.raises(StoreUnavailableError, match="all 1 connections")
    with stores.connections._borrowed(durable=False), refused:
        stores.ledger.get(id_of("t1"))
    stores.close()


def test_a_child_of_a_fork_opens_its_own(database_url: str) -> None:
    script = f"""
import os
from turnchain.stores.postgres import connect
from turnchain.stores.conformance.exam import id_of
stores = connect({database_url!r})
pid = "SELECT"
def backend():
    with stores.connections._borrowed(False) as connection:
        return connection.info.backend_pid
parents = backend()
read, write = os.pipe()
child = os.fork()
if child == 0:
    os.write(write, str(backend()).encode())
    stores.close()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
childs = int(os.read(read, 20))
assert childs != parents
assert backend() == parents, "the child closed its parent's connection"
stores.close()
"""
    subprocess.run([sys.executable, "-W", "error", "-c", script], check=True, timeout=20)


def test_a_closed_store_opens_again(stores: PostgresStores) -> None:
    stores.ledger.get(id_of("t1"))
    stores.close()
    stores.close()

    assert stores.ledger.get(id_of("t1")) is None


def _hang_up(direct: psycopg.Connection) -> None:
    direct.execute(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )


def test_a_column_that_is_added_under_running_processes_disturbs_nobody(
    stores: PostgresStores, given: Given, direct: psycopg.Connection
) -> None:
    """A statement that the server has prepared is refused from then on, on every connection that knows it."""
    given.settled("t0")
    wakes = [given.admitted(f"w{number}", session=f"s{number}") for number in range(8)]
    for wake in wakes[:7]:
        given.granted(wake)
        given.turn("t0")
        given.outcome("t0")

    direct.execute("ALTER TABLE turnchain_turns ADD COLUMN novel text")

    given.granted(wakes[7])
    assert given.turn("t0").status.is_final
    assert given.outcome("t0").data == {"answer": 42}


def test_a_database_without_the_functions_of_this_release_is_told_before_anything_is_claimed(
    stores: PostgresStores, direct: psycopg.Connection
) -> None:
    stores.check_schema()
    direct.execute("DROP FUNCTION turnchain_save_run")

    with pytest.raises(SchemaMissingError, match=r"lacks functions .*\(turnchain_save_run\)"):
        stores.check_schema()
