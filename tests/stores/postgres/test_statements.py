from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest

import turnchain.stores.postgres
from turnchain.stores.postgres.statements import STATEMENTS

PACKAGE = Path(turnchain.stores.postgres.__file__).parent
SOURCES = "\n".join(path.read_text() for path in PACKAGE.glob("*.py"))


@pytest.mark.parametrize("name", STATEMENTS)
def test_every_statement_is_used(name: str) -> None:
    assert f'"{name}"' in SOURCES


@pytest.mark.parametrize("name", STATEMENTS)
def test_every_statement_is_valid_on_the_schema(name: str, direct: psycopg.Connection) -> None:
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", STATEMENTS[name])))
    numbered = re.sub(r"%\((\w+)\)s", lambda m: f"${names.index(m[1]) + 1}", STATEMENTS[name])

    result = direct.pgconn.prepare(b"probe", numbered.encode())

    assert result.status == psycopg.pq.ExecStatus.COMMAND_OK, result.error_message.decode()


@pytest.mark.parametrize("name", STATEMENTS)
def test_every_parameter_has_a_cast(name: str) -> None:
    """So that a driver that sends text, and one that sends types, mean the same."""
    assert re.findall(r"%\(\w+\)s(?!::)", STATEMENTS[name]) == []


def test_every_statement_has_a_line_that_says_what_it_is_for() -> None:
    for path in (PACKAGE / "sql").glob("*.sql"):
        for header in re.finditer(r"^-- \w+ --\n(.*)\n", path.read_text(), re.MULTILINE):
            assert header[1].startswith("-- "), header[0]
