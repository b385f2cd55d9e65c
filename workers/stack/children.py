"""A process that is kept running: started again when it ends, until it is told to end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from time import monotonic
from typing import IO, Final

from turnchain.workers.embedded import ending_of
from turnchain.workers.stack.console import Sink

LAUNCH: Final = Path(__file__).parents[1] / "launch.py"
FIRST_PAUSE: Final = timedelta(seconds=1)
LONGEST_PAUSE: Final = timedelta(seconds=30)
_LIVED: Final = timedelta(minutes=1)
"""Who has run so long has not failed to start: the next pause is the first again."""
_DEATH_LIMIT: Final = timedelta(seconds=5)
_LOOK_SECONDS: Final = 0.01
_REMEMBERED: Final = 50
"""Lines that are kept for a sentence about its end."""


class Child:
    """One of our processes, in a session of its own.

    A thread starts it, waits for its end and starts it again. On Linux the process dies with that thread, and so with
    ours: by SIGKILL, since nobody is left then who could insist, and a turn survives that as any other crash.
    """

    def __init__(
        self,
        name: str,
        arguments: Sequence[str],
        environ: Mapping[str, str],
        sink: Sink,
        *,
        tell: Callable[[str], None],
        on_failure: Callable[[], None],
    ) -> None:
        """`arguments` are for this Python. `on_failure` is called when it ends before it was `settled`."""
        self.name = name
        self.failure: str | None = None
        """Why it never got as far as to be settled, in one sentence."""
        self._command = [sys.executable, *arguments]
        self._environ = environ
        self._sink = sink
        self._tell = tell
        self._on_failure = on_failure
        self._last: deque[str] = deque(maxlen=_REMEMBERED)
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._settled = threading.Event()
        self._ending = threading.Event()
        self._begun = False
        self._over = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name=f"turnchain-{name}")

    @property
    def pid(self) -> int | None:
        """Of the process that runs now; None between an end and the next start."""
        process = self._process
        return process.pid if process and process.returncode is None else None

    def children(self) -> list[int]:
        """Process ids of its own children, on Linux."""
        pid = self.pid
        with suppress(OSError):
            text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
            return [int(child) for child in text.split()]
        return []

    def start(self) -> None:
        """Start it, in the background."""
        self._begun = True
        self._keeper.start()

    def settle(self) -> None:
        """It has done its work once: from now on it is started again when it ends."""
        self._settled.set()

    def kill(self) -> None:
        """SIGKILL it and all that it has started, as a crash would, and wait until they are gone."""
        process = self._process
        if not process or process.returncode is not None:
            return
        deadline = monotonic() + _DEATH_LIMIT.total_seconds()
        while _kill_group(process.pid) and monotonic() < deadline:
            threading.Event().wait(_LOOK_SECONDS)

    def ask_to_end(self) -> None:
        """SIGTERM it, and do not start it again."""
        with self._lock:
            self._ending.set()
        pid = self.pid
        if pid:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    def has_ended(self, timeout: timedelta = timedelta(0)) -> bool:
        """Whether it has ended for good, after waiting so long for it."""
        return not self._begun or self._over.wait(timeout.total_seconds())

    @property
    def last_words(self) -> str:
        """The line that tells most about its end."""
        lines = [line for line in self._last if line.strip()]
        ours = [line for line in lines if line.startswith("turnchain: ")]
        return (ours or lines or ["it said nothing"])[-1].removeprefix("turnchain: ")

    def _keep(self) -> None:
        try:
            self._keep_alive()
        finally:
            self._over.set()

    def _keep_alive(self) -> None:
        pause = FIRST_PAUSE
        while True:
            began = monotonic()
            ending = self._live()
            if self._ending.is_set():
                return
            if not self._settled.is_set():
                self.failure = f"{self.name} {ending}: {self.last_words}"
                self._on_failure()
                return
            if monotonic() - began > _LIVED.total_seconds():
                pause = FIRST_PAUSE
            self._tell(f"{self.name} {ending}; started again in {pause.total_seconds():g} s")
            if self._ending.wait(pause.total_seconds()):
                return
            pause = min(2 * pause, LONGEST_PAUSE)

    def _live(self) -> str:
        """Start it, pass on what it prints until it ends, and say how it ended."""
        try:
            process = self._begin()
        except OSError as error:
            return f"could not be started ({error.strerror})"
        if process is None or process.stdout is None:
            return "was not started"
        reader = threading.Thread(
            target=self._read,
            args=(process.stdout,),
            name=f"{self._keeper.name}-output",
            daemon=True,
        )
        reader.start()
        status = process.wait()
        # What it leaves behind goes with it: nobody else would end that, and it holds the pipe open.
        _kill_group(process.pid)
        reader.join(_DEATH_LIMIT.total_seconds())
        return ending_of(status)

    def _begin(self) -> subprocess.Popen[bytes] | None:
        numbers = [str(number) for number in (os.getpid(), int(signal.SIGKILL), -1, -1)]
        with self._lock:
            if self._ending.is_set():
                return None
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(LAUNCH), *numbers, *self._command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=self._environ,
                start_new_session=True,
            )
            return self._process

    def _read(self, output: IO[bytes]) -> None:
        with output:
            for line in output:
                text = line.decode(errors="replace").rstrip("\r\n")
                self._last.append(text)
                # A full disk must not stop the reading: the process would stop with it.
                with suppress(OSError):
                    self._sink.write(self.name, text)


def _kill_group(pid: int) -> bool:
    """Whether there is still somebody of this session."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (
        ProcessLookupError,
        PermissionError,
    ):  # the latter: macOS, for those that are dead but not buried
        return False
    return True
