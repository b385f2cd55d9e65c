"""Ctrl-C, SIGTERM and a terminal that goes away: one ends what runs, a second one hurries the end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """One of them arrived."""

    def __init__(self, signum: signal.Signals) -> None:
        super().__init__(signum.name)
        self.signum = signum


@dataclass(slots=True)
class Interrupts:
    """What became of the signals."""

    hurried: threading.Event = field(default_factory=threading.Event)
    """Set once somebody has asked twice."""
    _ending: bool = False

    def end(self) -> None:
        """From now on nothing is interrupted any more: the end has begun, and it is to be an orderly one."""
        self._ending = True

    def on_signal(self, signum: int, frame: FrameType | None) -> None:
        """Raise in the main thread, where it stands, the first time only."""
        if self._ending:
            self.hurried.set()
            return
        self._ending = True
        raise Interrupted(signal.Signals(signum))


@contextmanager
def interruptible() -> Generator[Interrupts]:
    """Raise `Interrupted` at the first signal. What is ignored, as by `nohup`, stays so. Main thread only."""
    interrupts = Interrupts()
    before = {
        signum: handler
        for signum in SIGNALS
        if (handler := signal.getsignal(signum)) not in (signal.SIG_IGN, None)
    }
    for signum in before:
        signal.signal(signum, interrupts.on_signal)
    try:
        yield interrupts
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
