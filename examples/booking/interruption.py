"""Ctrl-C while coroutines run: they are cancelled where they wait, and then the signal does what it always does."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

from turnchain.workers.stack.interrupts import SIGNALS

Result = TypeVar("Result")


def run(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """As `asyncio.run`. A handler that raises must not do so in the middle of the event loop. Main thread only."""
    arrived: list[int] = []

    async def main() -> Result:
        with _cancelling(arrived):
            return await coroutine

    try:
        return asyncio.run(main())
    except asyncio.CancelledError:
        for signum in arrived[:1]:
            signal.raise_signal(signum)
        raise


@contextmanager
def _cancelling(arrived: list[int]) -> Generator[None]:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()

    def on_signal(signum: int, frame: FrameType | None) -> None:
        arrived.append(signum)
        if task:
            loop.call_soon_threadsafe(task.cancel)

    before = {
        signum: signal.signal(signum, on_signal)
        for signum in SIGNALS
        if signal.getsignal(signum) != signal.SIG_IGN
    }
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
