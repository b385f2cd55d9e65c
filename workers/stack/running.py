"""Starting a stack, keeping it, ending it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import Final

from turnchain.orchestrator_core.errors import SettingsError, StoreUnavailableError
from turnchain.workers.embedded import PORT_TAKEN, Server, start_postgres, start_valkey
from turnchain.workers.process_table import BEAT, FLOWER, WORKER, Process
from turnchain.workers.settings import Settings
from turnchain.workers.stack.children import Child
from turnchain.workers.stack.console import LogFiles, Sink
from turnchain.workers.stack.data_directory import claimed
from turnchain.workers.stack.database import with_database
from turnchain.workers.stack.interrupts import Interrupts
from turnchain.workers.stack.options import USUAL_PORTS, StackOptions
from turnchain.workers.stack.probes import flower_answers, workers_that_answer
from turnchain.workers.tables import make_tables

_START_LIMIT: Final = timedelta(seconds=60)
_AFTER_GRACE: Final = timedelta(seconds=5)
"""How long a worker may take to end once the grace is over in which it hands its turns back."""
_LOOK_SECONDS: Final = 0.05


@dataclass(slots=True)
class Stack:
    """What is running."""

    directory: Path
    postgres_url: str
    """The ledger."""
    postgres: Server
    valkey: Server
    environ: Mapping[str, str]
    """Of its processes; right for clients as well."""
    flower_port: int | None = None
    processes: list[Child] = field(default_factory=list[Child])
    fallen: threading.Event = field(default_factory=threading.Event)
    """Set when a server has ended, or a process before it had answered once."""

    @property
    def broker_url(self) -> str:
        """Celery's broker."""
        return self.valkey.url

    @property
    def flower_url(self) -> str | None:
        """Flower's page of tasks; None without Flower."""
        return f"http://127.0.0.1:{self.flower_port}/tasks" if self.flower_port else None

    @property
    def logs(self) -> Path:
        """Where, for each process, its name.log is, unless another sink was given."""
        return self.directory / "logs"

    @property
    def workers(self) -> list[Child]:
        """Those that run stages."""
        return [each for each in self.processes if each.name.startswith(WORKER)]

    def wait(self) -> None:
        """Wait for as long as both servers run.

        Raises:
            StoreUnavailableError: one has ended; the message ends with its own last words.
        """
        self.fallen.wait()
        self.check()

    def check(self) -> None:
        """Raise what `wait` would have raised by now."""
        for server in (self.postgres, self.valkey):
            if server.process.poll() is not None:
                raise StoreUnavailableError(server.ending)
        for child in self.processes:
            if child.failure:
                raise SettingsError(child.failure)


@contextmanager
def running(
    options: StackOptions,
    *,
    tell: Callable[[str], None] = lambda _: None,
    sink: Sink | None = None,
    interrupts: Interrupts | None = None,
) -> Generator[Stack]:
    """Run the stack for the length of a `with` block, which begins when everything answers. Main thread only.

    `tell` is given a sentence for whatever is not as usual. What the processes print goes to `sink`, by default to
    files in the directory's `logs`.

    Raises:
        SettingsError: what was asked for cannot be. Nothing is left of the attempt.
        StoreUnavailableError: a server did not start; the message ends with its own last words.
    """
    interrupts = interrupts or Interrupts()
    ends = ExitStack()
    try:
        try:
            stack = _started(options, ends, tell, sink, interrupts)
        except OSError as error:
            raise StoreUnavailableError(
                f"{error.filename or str(options.directory)!r}: {error.strerror or error}"
            ) from error
        yield stack
    finally:
        interrupts.end()
        ends.close()


def _started(
    options: StackOptions,
    ends: ExitStack,
    tell: Callable[[str], None],
    sink: Sink | None,
    interrupts: Interrupts,
) -> Stack:
    settings = options.check()
    claim = ends.enter_context(claimed(options.directory))
    postgres = start_postgres(
        claim.path / "postgres",
        port=options.ports("postgres"),
        durable=options.durable,
        settings={"max_connections": str(options.connections)},
    )
    ends.callback(postgres.stop)
    valkey = start_valkey(
        claim.path / "valkey", port=options.ports("redis"), durable=options.durable
    )
    ends.callback(valkey.stop)
    url = with_database(postgres.url, options.database)
    make_tables(url)

    stack = Stack(claim.path, url, postgres, valkey, options.environment(url, valkey.url))
    ends.callback(_end, stack, settings.hand_back_grace + _AFTER_GRACE, tell, interrupts)
    for server in (postgres, valkey):
        threading.Thread(target=_watch, args=(server, stack.fallen), daemon=True).start()
    output = sink or LogFiles(stack.logs)

    def begin(row: Process) -> None:
        for name in row.names:
            environ = {**stack.environ, **row.environ}
            child = Child(
                name, row.command(name), environ, output, tell=tell, on_failure=stack.fallen.set
            )
            stack.processes.append(child)
            child.start()

    for row in options.table(settings):
        begin(row)
    _wait_until_all_answer(stack, settings)
    if options.flower:
        # Last, since it asks the workers what they are once, when it starts.
        _begin_flower(stack, options, settings, begin)
    _tell_ports(stack, options, tell)
    for child in stack.processes:
        child.settle()
    claim.keep()
    return stack


def _begin_flower(
    stack: Stack, options: StackOptions, settings: Settings, begin: Callable[[Process], None]
) -> None:
    """Start it on the first port that nobody takes before it does."""
    for port in options.ports("flower"):
        stack.flower_port = port
        begin(options.flower_row(port))
        try:
            _wait_until_all_answer(stack, settings)
            return
        except SettingsError as error:
            if options.flower_port is not None or PORT_TAKEN not in str(error):
                raise
            stack.processes.pop()
            stack.fallen.clear()


def _tell_ports(stack: Stack, options: StackOptions, tell: Callable[[str], None]) -> None:
    for name, given, port in (
        ("postgres", options.postgres_port, stack.postgres.port),
        ("redis", options.redis_port, stack.valkey.port),
        ("flower", options.flower_port, stack.flower_port),
    ):
        usual = USUAL_PORTS[name]
        if port and given is None and port != usual:
            tell(f"port {usual} is taken: {name} listens on {port}")


def _watch(server: Server, fallen: threading.Event) -> None:
    server.process.wait()
    fallen.set()


def _wait_until_all_answer(stack: Stack, settings: Settings) -> None:
    """Wait until each process has answered once.

    Raises:
        SettingsError, StoreUnavailableError: one has ended, or took too long.
    """
    deadline = monotonic() + _START_LIMIT.total_seconds()
    # Beat answers nobody: that it runs has to do.
    silent: dict[str, Child] = {
        child.name: child for child in stack.processes if child.name != BEAT
    }
    while silent:
        stack.check()
        if monotonic() > deadline:
            raise StoreUnavailableError(
                f"{', '.join(silent)} did not answer within {_START_LIMIT.total_seconds():g} s"
            )
        heard = workers_that_answer(stack.broker_url, settings.key_prefix, silent.keys() - {FLOWER})
        if FLOWER in silent and flower_answers(silent[FLOWER].pid, stack.flower_port):
            heard.add(FLOWER)
        silent = {name: child for name, child in silent.items() if name not in heard}
        stack.fallen.wait(_LOOK_SECONDS)
    stack.check()


def _end(
    stack: Stack,
    grace: timedelta,
    tell: Callable[[str], None],
    interrupts: Interrupts,
) -> None:
    """Ask all of them to end, and kill who has not when the grace is over, or when somebody is in a hurry."""
    for child in stack.processes:
        child.ask_to_end()
    deadline = monotonic() + grace.total_seconds()
    while late := [child for child in stack.processes if not child.has_ended()]:
        if monotonic() > deadline or interrupts.hurried.wait(_LOOK_SECONDS):
            break
    for child in late:
        child.kill()
        tell(f"{child.name} did not end in time: killed")
    for child in late:
        child.has_ended(_AFTER_GRACE)
