"""A ledger that the commands find by the environment, and the commands themselves."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from dataclasses import dataclass

import pytest

from turnchain.orchestrator_core.contracts import ProcessRecord
from turnchain.stores.conformance.exam import Given
from turnchain.stores.postgres import connect
from turnchain.workers.cli import main


@dataclass(frozen=True, slots=True)
class Printed:
    """What a command said."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


Command = Callable[..., Printed]


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("TURNCHAIN_") and not name.startswith("TURNCHAIN_TEST_"):
            monkeypatch.delenv(name)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """`turnchain`, in this process."""

    def run(*arguments: str) -> Printed:
        try:
            status = main(arguments)
        except SystemExit as end:  # argparse's
            status = int(end.code or 0)
        captured = capsys.readouterr()
        return Printed(status, captured.out, captured.err)

    return run


@pytest.fixture
def given(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Generator[Given]:
    """Turns in the ledger that the environment names."""
    monkeypatch.setenv("TURNCHAIN_POSTGRES_URL", database_url)
    stores = connect(database_url)
    yield Given(stores)
    stores.close()


@pytest.fixture
def worker(given: Given) -> ProcessRecord:
    """One that can do everything, alive for as long as a heartbeat counts."""
    process = ProcessRecord(
        process_id="host:1", slots=2, queues=("turns",), signatures={"bot": "sig"}
    )
    given.ledger.beat(process)
    return process
