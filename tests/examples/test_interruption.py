"""A signal ends coroutines where they wait, and is delivered after that."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from turnchain.examples.booking import interruption
from turnchain.workers.stack import Interrupted, interruptible


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_cancels_first_and_counts_afterwards(signum: signal.Signals) -> None:
    seen: list[str] = []

    async def wait_for_ever() -> None:
        os.kill(os.getpid(), signum)
        seen.append("went on until it waited")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("cleaned up")

    with pytest.raises(Interrupted) as interrupted, interruptible():
        interruption.run(wait_for_ever())

    assert interrupted.value.signum == signum
    assert seen == ["went on until it waited", "cleaned up"]


def test_without_a_signal_it_returns_the_result_and_leaves_the_handlers_as_they_were() -> None:
    before = signal.getsignal(signal.SIGTERM)

    async def answer() -> int:
        assert signal.getsignal(signal.SIGTERM) != before
        return 7

    assert interruption.run(answer()) == 7
    assert signal.getsignal(signal.SIGTERM) == before


def test_what_is_ignored_stays_ignored() -> None:
    """As under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)

    async def hang_up() -> str:
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.sleep(0)
        return "still here"

    try:
        assert interruption.run(hang_up()) == "still here"
    finally:
        signal.signal(signal.SIGHUP, before)
