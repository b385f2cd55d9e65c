from __future__ import annotations

import psycopg
import redis

from tests.servers import database, name_of_database, new_database_name, prefix, with_database


def databases(server_url: str) -> set[str]:
    with psycopg.connect(server_url) as connection:
        return {
            name for (name,) in connection.execute("SELECT datname FROM pg_database").fetchall()
        }


def test_a_database_of_ones_own_is_empty_and_dropped(postgres_url: str) -> None:
    with database(postgres_url) as url, psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE mine ()")
        name = name_of_database(url)
        assert name in databases(postgres_url)

    assert name.startswith("turnchain_test_")
    assert name not in databases(postgres_url)


def test_a_template_is_copied(postgres_url: str) -> None:
    with database(postgres_url) as template_url:
        with psycopg.connect(template_url) as connection:
            connection.execute("CREATE TABLE copied ()")

        with (
            database(postgres_url, template=name_of_database(template_url)) as url,
            psycopg.connect(url) as connection,
        ):
            assert connection.execute("SELECT * FROM copied").fetchall() == []


def test_names_begin_with_a_given_database_of_our_kind() -> None:
    ours = with_database("postgresql://user:secret@host:5432/postgres", "turnchain_test_ci")

    assert ours == "postgresql://user:secret@host:5432/turnchain_test_ci"
    assert new_database_name(ours).startswith("turnchain_test_ci_")
    assert new_database_name("postgresql://host/production").startswith("turnchain_test_")


def test_only_keys_under_the_prefix_are_deleted(redis_url: str, key_prefix: str) -> None:
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        client.set(f"{key_prefix}theirs", 1)

        with prefix(redis_url) as own:
            client.set(f"{own}mine", 1)
            client.set(f"{own}mine too", 1)

        assert list(client.scan_iter(match=f"{own}*")) == []
        assert client.exists(f"{key_prefix}theirs")
