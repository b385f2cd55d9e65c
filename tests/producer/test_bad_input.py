"""What cannot be used is refused before anything is written or published, by field, value and way out."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as default
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import psycopg
import pytest
import redis
from celery import Celery
from psycopg import sql

import turnchain
from turnchain import Message, Provider, SessionClient
from turnchain.orchestrator_core.contracts import INPUT_LIMIT
from turnchain.orchestrator_core.errors import (
    InvalidInputError,
    OrchestratorConfigError,
    SchemaMissingError,
    SettingsError,
    StoreUnavailableError,
    UnknownOrchestratorError,
)

NAIVE = datetime(2050, 1, 1)  # noqa: DTZ001 - that is the mistake
SOME_ID = UUID("9a3b5a3e-3f5e-4e0c-8a58-6c1b1d1f8f10")
TABLES = (
    "turnchain_turns", "turnchain_turn_requests", "turnchain_sessions", "turnchain_turn_events", "turnchain_outcomes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """One call that is refused."""

    what: str
    field: str
    """What the error names, at the beginning of its text."""
    way_out: str
    """What it says may be done."""
    input: Any = "hi"
    arguments: Mapping[str, Any] = default(default_factory=dict[str, Any])
    shown: str = ""
    """How the value stands in the text."""


def cycle() -> list[Any]:
    value: list[Any] = [1]
    value.append({"again": value})
    return value


def deep(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


class Text(dict[str, Any]):
    pass


NOT_JSON: Sequence[tuple[str, Any, str, str]] = (
    ("NaN", float("nan"), "nan", "pass None or a string"),
    ("infinity", float("inf"), "inf", "pass None or a string"),
    ("minus infinity", float("-inf"), "-inf", "pass None or a string"),
    ("a set", {1}, "{1}", "convert it"),
    ("bytes", b"x", "b'x'", "convert it"),
    ("an instant", datetime(2026, 1, 2, tzinfo=UTC), "datetime.datetime(2026", "convert it"),
    ("a UUID", SOME_ID, "UUID(", "convert it"),
    ("an object", object(), "<object", "convert it"),
    ("a function", deep, "<function", "convert it"),
    ("a cycle", cycle(), "list", "break the cycle"),
    ("a number as key", {1: "x"}, "1", "str()"),
    ("None as key", {None: "x"}, "None", "str()"),
    ("a tuple as key", {(1, 2): "x"}, "(1, 2)", "str()"),
    ("half a surrogate pair", "\ud800", r"'\ud800'", "remove it"),
    ("half a pair as key", {"\udfff": 1}, r"'\udfff'", "remove it"),
    ("NUL", "a\x00b", r"'a\x00b'", "remove it"),
    ("NUL as key", {"\x00": 1}, r"'\x00'", "remove it"),
    ("10,000 levels", deep(10_000), "list", "flatten it"),
    ("101 levels", deep(101), "list", "flatten it"),
    ("an endless number", 10**5000, "bits", "as a string"),
)
"""What, the value, how it is shown, and the way out."""


def cases() -> Generator[Case]:
    for what, value, shown, way_out in NOT_JSON:
        yield Case(f"input is {what}", "input", way_out, value, shown=shown)
        yield Case(
            f"input holds {what}", "input.deep[1]", way_out, {"deep": [0, value]}, shown=shown
        )
        for name in ("state", "context"):
            yield Case(
                f"{name} holds {what}",
                f"{name}.x",
                way_out,
                arguments={name: {"x": value}},
                shown=shown,
            )
        for kind, message in (
            ("object", {"role": "user", "content": value}),
            ("message", Message(role="user", content=value)),
        ):
            yield Case(
                f"an {kind} of history holds {what}",
                "history[0].content",
                way_out,
                arguments={"history": [message]},
                shown=shown,
            )
        yield Case(
            f"a provider's arguments hold {what}",
            "context.arguments.x",
            way_out,
            arguments={"context": Provider.model_construct(name="p", arguments={"x": value})},
            shown=shown,
        )
    large = "x" * (INPUT_LIMIT + 1)
    yield Case("input is too large", "input is 1,000,003 bytes", "pass a reference", large)
    for name in ("state", "context"):
        yield Case(
            f"{name} is too large",
            f"{name} is 1,000,00",
            "pass a reference",
            arguments={name: {"x": large[8:]}},
        )
    yield Case(
        "history is too large",
        "history is 1,0",
        "pass a reference",
        arguments={"history": [{"role": "user", "content": "x" * 10_000}] * 101},
    )
    yield Case("input is None", "input is missing", "give the text or object", None)
    for name in ("state", "context"):
        for wrong in ([], "text", 7, [("a", 1)], True):
            yield Case(
                f"{name} is {wrong!r}",
                f"{name} is a {type(wrong).__name__}",
                "give a JSON object",
                arguments={name: wrong},
            )
    yield Case("history is None", "history is missing", "[] for none", arguments={"history": None})
    for wrong in ("text", b"text", 7, {"role": "user"}, {1}, iter([])):
        yield Case(
            f"history is a {type(wrong).__name__}",
            f"history is a {type(wrong).__name__}",
            "give a list of messages",
            arguments={"history": wrong},
        )
    for wrong in ("text", 7, {"content": "no role"}, {"role": None}, {"role": 7}, ["user", "hi"]):
        yield Case(
            f"a message is {wrong!r}",
            "history[1]",
            "text `role`",
            arguments={"history": [{"role": "user", "content": "fine"}, wrong]},
        )
    yield from names()
    yield from numbers()


def names() -> Generator[Case]:
    for name in ("session_id", "idempotency_key", "tenant", "user_id"):
        for wrong in ("", "  ", "\n", 7, b"s", ["s"], SOME_ID):
            yield Case(
                f"{name} is {wrong!r}",
                f"{name} = {wrong!r}",
                "text that is not empty",
                arguments={name: wrong},
            )
        yield Case(
            f"{name} is content",
            f"{name} has 201 characters",
            "use an id, not content",
            arguments={name: "x" * 201},
        )
        yield Case(f"{name} holds NUL", name, "remove it", arguments={name: "a\x00"})
        yield Case(f"{name} holds half a pair", name, "remove it", arguments={name: "\ud800"})
    yield Case(
        "session_id is None", "session_id = None", "not empty", arguments={"session_id": None}
    )
    yield Case(
        "a provider has no name",
        "context = ''",
        "text that is not empty",
        arguments={"context": Provider(name="")},
    )
    yield Case(
        "a history provider has no name",
        "history = ''",
        "text that is not empty",
        arguments={"history": Provider(name="")},
    )
    for wrong in ("", "no id", str(SOME_ID).upper(), SOME_ID.hex, f"{{{SOME_ID}}}", SOME_ID, 7):
        yield Case(
            f"turn_id is {wrong!r}",
            f"turn_id = {wrong!r}",
            "str(uuid.uuid4())",
            arguments={"turn_id": wrong},
        )


def numbers() -> Generator[Case]:
    for wrong in (True, False, 32768, -32769, 10**30, 1.0, "1", None):
        yield Case(
            f"priority is {wrong!r}",
            f"priority = {wrong!r}",
            "an int from -32768 to 32767",
            arguments={"priority": wrong},
        )
    for wrong in (True, -1, 2**31, 0.0, "0"):
        yield Case(
            f"expected_turn_index is {wrong!r}",
            f"expected_turn_index = {wrong!r}",
            "an int from 0 to",
            arguments={"expected_turn_index": wrong},
        )
    for wrong in (NAIVE, "2050-01-01T00:00:00Z", 60, 60.0, True):
        yield Case(
            f"deadline is {wrong!r}",
            f"deadline = {wrong!r}",
            "datetime.now(UTC)",
            arguments={"deadline": wrong},
        )


@pytest.fixture(scope="module")
def nothing_written(
    module_database_url: str, redis_url: str, module_key_prefix: str
) -> Generator[None]:
    yield
    with psycopg.connect(module_database_url) as connection:
        for table in TABLES:
            query = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(table))
            assert connection.execute(query).fetchone() == (0,), table
    with redis.Redis.from_url(redis_url) as broker:
        assert list(broker.scan_iter(match=f"{module_key_prefix}*", count=1000)) == []


@pytest.fixture
def refusing(
    module_database_url: str, redis_url: str, module_key_prefix: str, nothing_written: None
) -> SessionClient:
    """A client whose database and broker must be found empty at the end of this module."""
    return turnchain.connect(module_database_url, broker=redis_url, key_prefix=module_key_prefix)


@pytest.mark.parametrize("case", list(cases()), ids=lambda case: case.what[:60])
def test_a_wrong_argument_is_refused(refusing: SessionClient, case: Case) -> None:
    arguments: dict[str, Any] = {"session_id": "s", "history": [], **case.arguments}

    with pytest.raises(InvalidInputError) as refused:
        refusing.enqueue("bot", case.input, **arguments)

    text = str(refused.value)
    assert text.startswith(case.field)
    assert case.way_out in text
    assert case.shown in text
    assert len(text) < 400
    named = refused.value.context["field"]
    assert text.startswith(str(named)) or str(named).startswith(case.field)
    assert isinstance(refused.value, OrchestratorConfigError)
    assert refused.value.code == "ORCHESTRATOR_CONFIG"


def test_a_missing_input_is_told_from_a_wrong_one(refusing: SessionClient) -> None:
    with pytest.raises(InvalidInputError, match="input is missing"):
        refusing.enqueue("bot", session_id="s", history=[])


def test_a_missing_history_says_who_keeps_it(refusing: SessionClient) -> None:
    with pytest.raises(InvalidInputError, match="keeps the session's state, not its messages"):
        refusing.enqueue("bot", "hi", session_id="s")


@pytest.mark.parametrize("name", ["", " ", "x" * 201, 7, None])
def test_a_wrong_orchestrator_name_is_refused(refusing: SessionClient, name: Any) -> None:
    with pytest.raises(InvalidInputError, match="orchestrator_name"):
        refusing.enqueue(name, "hi", session_id="s", history=[])


def test_the_async_twin_refuses_alike(refusing: SessionClient) -> None:
    with pytest.raises(InvalidInputError, match="session_id = ''"):
        asyncio.run(refusing.aenqueue("bot", "hi", session_id="", history=[]))
    with pytest.raises(InvalidInputError, match="connection is not taken by aenqueue"):
        asyncio.run(
            refusing.aenqueue("bot", "hi", session_id="s", history=[], connection=object())  # pyright: ignore[reportArgumentType]
        )


def test_the_async_twin_takes_what_enqueue_takes() -> None:
    enqueue, aenqueue = (
        inspect.signature(each).parameters
        for each in (SessionClient.enqueue, SessionClient.aenqueue)
    )

    assert list(aenqueue) == list(enqueue)
    assert all(
        aenqueue[name].default == enqueue[name].default
        and (name == "connection" or aenqueue[name].annotation == enqueue[name].annotation)
        for name in enqueue
    )


def test_an_orchestrator_that_nobody_serves_is_refused_with_those_that_are(
    module_database_url: str, redis_url: str, module_key_prefix: str, nothing_written: None
) -> None:
    client = turnchain.connect(
        module_database_url,
        broker=redis_url,
        key_prefix=module_key_prefix,
        orchestrators=["support", "booking"],
    )

    with pytest.raises(UnknownOrchestratorError) as refused:
        client.enqueue("suport", "hi", session_id="s", history=[])

    assert "'suport'" in str(refused.value)
    assert "booking, support" in str(refused.value)
    assert refused.value.context["known"] == ["booking", "support"]


@pytest.mark.parametrize(
    "url",
    [
        "mysql://user:hunter2@host/db",
        "user:hunter2@host",
        "postgresql://h:hunter2port/db",
        "",
        "sqlite://",
    ],
)
def test_a_url_of_another_kind_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(SettingsError, match="postgresql://") as refused:
        turnchain.connect(url, broker="redis://127.0.0.1:1/0")

    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "broker",
    ["http://:hunter2@host", "", "redis:/host", "user:hunter2@host", "kafka://host", None, 7],
)
def test_a_broker_of_another_kind_is_refused_without_its_password(broker: Any) -> None:
    with pytest.raises(SettingsError, match=r"broker = .*redis://.*amqp://") as refused:
        turnchain.connect("postgresql://host/db", broker=broker)

    assert "hunter2" not in str(refused.value)


def test_an_app_that_runs_tasks_in_place_is_refused_as_broker() -> None:
    """[DESIGN 11] Detected, and refused clearly."""
    app = Celery(set_as_current=False, broker="memory://")
    app.conf.task_always_eager = True

    with pytest.raises(SettingsError, match=r"task_always_eager.*turnchain\.in_process"):
        turnchain.connect("postgresql://host/db", broker=app)


def test_in_process_refuses_a_url_of_another_kind() -> None:
    with pytest.raises(SettingsError, match=r"memory:// or postgresql://"):
        turnchain.in_process(url="redis://host")


def test_a_server_that_nobody_reaches_is_a_typed_error_without_the_password(redis_url: str) -> None:
    client = turnchain.connect("postgresql://user:hunter2@127.0.0.1:1/db", broker=redis_url)

    with pytest.raises(StoreUnavailableError) as refused:
        client.enqueue("bot", "hi", session_id="s", history=[])

    assert "127.0.0.1:1" in str(refused.value)
    assert "hunter2" not in f"{refused.value} {refused.value.context}"


def test_a_database_without_the_tables_says_how_to_make_them(
    empty_database_url: str, redis_url: str, key_prefix: str
) -> None:
    client = turnchain.connect(empty_database_url, broker=redis_url, key_prefix=key_prefix)

    with pytest.raises(SchemaMissingError, match="turnchain schema"):
        client.enqueue("bot", "hi", session_id="s", history=[])
    with psycopg.connect(empty_database_url) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_tables WHERE tablename LIKE 'turnchain%'"
        ).fetchone()
    assert found == (0,)
