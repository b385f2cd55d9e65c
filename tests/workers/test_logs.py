"""Log lines: JSON, ids, and nothing that a person wrote."""

from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Callable, Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from celery.app import trace
from celery.worker.consumer import consumer as celerys
from hypothesis import given
from hypothesis import strategies as st

from turnchain.workers.logs import FIELDS, IdsOnly, JsonLines, set_up

SECRET = "what a person wrote \N{UMBRELLA}"
TURN = "9a3b5a3e-3f5e-4e0c-8a58-6c1b1d1f8f10"


consumer: Any = celerys  # whose stubs leave the templates out
Logger = tuple[logging.Logger, Callable[[], list[dict[str, Any]]]]


@pytest.fixture
def logger() -> Logger:
    """A logger with our handler, and what it has written so far."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    handler.addFilter(IdsOnly())
    # Of no hierarchy: pytest's own handlers must not have to cope with what is logged here.
    logger = logging.Logger("turnchain.tests", logging.DEBUG)  # noqa: LOG001
    logger.addHandler(handler)

    def lines() -> list[dict[str, Any]]:
        assert SECRET not in stream.getvalue()
        assert "umbrella" not in stream.getvalue().lower()
        return [json.loads(line) for line in stream.getvalue().split("\n") if line]

    return logger, lines


def test_a_line_is_one_json_object_with_an_instant_in_utc(logger: Logger) -> None:
    log, lines = logger

    log.info("claimed %s", "it")

    (line,) = lines()
    assert list(line) == ["ts", "level", "logger", "message"]
    assert (line["level"], line["logger"], line["message"]) == (
        "INFO",
        "turnchain.tests",
        "claimed it",
    )
    instant = datetime.fromisoformat(line["ts"])
    assert instant.utcoffset() == datetime.now(UTC).utcoffset()


def test_our_ids_are_fields_and_everything_else_stays_out(logger: Logger) -> None:
    log, lines = logger

    log.warning("claimed", extra={"turn_id": TURN, "fence": 3, "input": SECRET, "data": SECRET})

    (line,) = lines()
    assert line["turn_id"] == TURN
    assert line["fence"] == 3
    assert set(line) <= {"ts", "level", "logger", "message", *FIELDS}


def test_a_line_break_does_not_break_the_line(logger: Logger) -> None:
    log, lines = logger

    log.info("one\ntwo\u2028three\r")

    (line,) = lines()
    assert line["message"] == "one\ntwo\u2028three\r"


def test_of_an_exception_its_kind_and_place_are_told_and_not_its_text(logger: Logger) -> None:
    log, lines = logger
    try:
        try:
            raise LookupError(SECRET)
        except LookupError as error:
            raise ValueError(SECRET) from error
    except ValueError:
        log.exception("stage failed")

    (line,) = lines()
    assert line["exception"] == "ValueError"
    assert line["raised_at"][-1].startswith(f"{Path(__file__).name}:")
    assert line["message"] == "stage failed"


def test_secrets_in_a_message_are_scrubbed_and_long_ones_cut(logger: Logger) -> None:
    log, lines = logger

    log.info("connected to %s", "redis://user:hunter2@host/0")
    log.info("x" * 10_000)

    scrubbed, cut = lines()
    assert "hunter2" not in scrubbed["message"]
    assert "host" in scrubbed["message"]
    assert len(cut["message"]) == 500


@pytest.mark.parametrize(
    ("template", "arguments", "what"),
    [
        (consumer.UNKNOWN_FORMAT, (SECRET,), "Received and deleted unknown message"),
        (
            consumer.UNKNOWN_TASK_ERROR,
            (KeyError(SECRET), SECRET, {"id": TURN, "argsrepr": SECRET}, {"x": SECRET}),
            "Received unregistered task",
        ),
        (
            consumer.INVALID_TASK_ERROR,
            (ValueError(SECRET), SECRET),
            "Received invalid task message",
        ),
        (
            consumer.MESSAGE_DECODE_ERROR,
            (ValueError(SECRET), "application/json", "utf-8", SECRET, SECRET),
            "Can't decode message body",
        ),
        ("Could not restore message: %r", ({"body": SECRET},), "Could not restore message"),
        (
            "Couldn't convert ETA %r to timestamp: %r. Task: %r",
            (SECRET, ValueError(SECRET), {"args": SECRET}),
            "Couldn't convert ETA",
        ),
        (f"UNABLE TO RESTORE 1 MESSAGES: [{SECRET}]", (), "UNABLE TO RESTORE"),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 40 else "",
)
def test_dumps_of_messages_are_cut_down_to_what_happened(
    logger: Logger, template: str, arguments: tuple[Any, ...], what: str
) -> None:
    """With the very templates of the installed Celery and kombu: a new version that words them anew fails here."""
    log, lines = logger
    try:
        raise ValueError(SECRET)
    except ValueError:
        log.exception(template, *arguments)

    (line,) = lines()
    assert line["message"] == what
    assert line["task_id"] == (TURN if "unregistered" in what else "unknown")


def test_the_wording_that_the_filter_goes_by_is_kombus() -> None:
    from kombu.transport import redis
    from kombu.transport.virtual import base

    assert "Could not restore message: %r" in Path(redis.__file__).read_text()
    assert base.RESTORE_PANIC_FMT.startswith("UNABLE TO RESTORE")


def test_a_task_id_of_somebody_elses_making_is_cut(logger: Logger) -> None:
    log, lines = logger

    log.error(consumer.UNKNOWN_TASK_ERROR, KeyError("x"), "", {"id": "y" * 5000}, {})

    (line,) = lines()
    assert line["task_id"] == "y" * 120


@pytest.mark.parametrize(
    "template", [trace.LOG_FAILURE, trace.LOG_INTERNAL_ERROR, trace.LOG_REJECTED]
)
def test_celerys_word_on_a_failed_task_names_the_kind_of_error_only(
    logger: Logger, template: str
) -> None:
    log, lines = logger
    context = {
        "name": "turn.load",
        "id": f"{TURN}:load:0.1",
        "description": "raised unexpected",
        "exc": repr(TypeError(f"load() got an unexpected keyword argument {SECRET!r}")),
        "args": SECRET,
        "kwargs": SECRET,
        "traceback": SECRET,
    }

    log.error(template, context, extra={"data": context})

    (line,) = lines()
    assert TURN in line["message"]
    assert line["message"].endswith("TypeError")


def test_what_our_own_failed_stage_says_stays(logger: Logger) -> None:
    """It holds ids and a code, and is what an operator searches for."""
    log, lines = logger
    told = f"StageFailed('STORE_UNAVAILABLE in load of turn {TURN}')"

    log.error(trace.LOG_FAILURE, {"name": "turn.load", "id": "x", "description": "", "exc": told})

    assert lines()[0]["message"].endswith(told)


class Strange:
    def __repr__(self) -> str:
        raise RuntimeError(SECRET)

    __str__ = __repr__


@pytest.mark.parametrize(
    ("message", "arguments", "extra"),
    [
        ("stage %s", ("load",), {"error": ValueError(SECRET)}),
        ("stage %s", ("load",), {"turn_id": Strange(), "reason": {SECRET}}),
        ("stage %s %s", (SECRET,), {}),
        ("stage %d", (SECRET,), {}),
        ("stage %s", (Strange(),), {}),
    ],
)
def test_what_cannot_be_written_is_left_out_without_noise(
    logger: Logger,
    capfd: pytest.CaptureFixture[str],
    message: str,
    arguments: tuple[Any, ...],
    extra: dict[str, Any],
) -> None:
    """What broke: logging's own complaint prints the arguments, which may be anything."""
    log, lines = logger

    log.info(message, *arguments, extra=extra)

    (line,) = lines()
    assert line["message"].startswith("stage ")
    assert capfd.readouterr().err == ""


@given(st.text(), st.dictionaries(st.sampled_from(FIELDS), st.text() | st.integers() | st.none()))
def test_whatever_is_logged_is_one_line_that_can_be_read(
    message: str, extra: dict[str, Any]
) -> None:
    record = logging.makeLogRecord({"msg": message, "levelname": "INFO", "name": "x", **extra})

    text = JsonLines().format(record)

    assert "\n" not in text
    text.encode()
    line = json.loads(text)
    assert {name: line[name] for name in extra} == extra


@pytest.fixture
def root() -> Generator[logging.Logger]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    trace = logging.getLogger("celery.app.trace")
    yield root
    root.handlers[:] = handlers
    root.setLevel(level)
    trace.setLevel(logging.NOTSET)
    logging.getLogger("celery.worker.strategy").setLevel(logging.NOTSET)


def test_a_stage_that_came_and_went_is_told_at_debug_only(
    root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = logging.getLogger("celery.app.trace")

    set_up("INFO")
    trace.info("Task turn.load succeeded")
    trace.error("Task turn.load failed")
    trace.setLevel(logging.NOTSET)
    set_up("DEBUG")
    trace.info("Task turn.drift succeeded")

    lines = capsys.readouterr().err.splitlines()
    assert [json.loads(line)["message"] for line in lines] == [
        "Task turn.load failed",
        "Task turn.drift succeeded",
    ]


def test_every_logger_is_sent_to_standard_error_in_our_form(
    root: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    set_up("WARNING")
    set_up("WARNING")

    logging.getLogger("somebody.else").warning("told once")
    logging.getLogger("somebody.else").info("not told")

    assert len(root.handlers) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["message"] == "told once"
    assert sys.stderr is not None
