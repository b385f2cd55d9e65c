from __future__ import annotations

import os
import signal
from collections.abc import Generator

import pytest

from turnchain.workers.stack import Interrupted, Interrupts, interruptible


@pytest.fixture(autouse=True)
def _handlers() -> Generator[None]:  # pyright: ignore[reportUnusedFunction]
    """A test that fails must not take the run's own handlers away."""
    before = {
        each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    }
    yield
    for signum, handler in before.items():
        signal.signal(signum, handler)


def send(signum: signal.Signals) -> None:
    os.kill(os.getpid(), signum)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_interrupts_and_says_which_it_was(signum: signal.Signals) -> None:
    with interruptible(), pytest.raises(Interrupted) as raised:
        send(signum)

    assert raised.value.signum is signum
    assert isinstance(raised.value, KeyboardInterrupt)


def test_the_second_one_only_hurries() -> None:
    with interruptible() as interrupts:
        with pytest.raises(Interrupted):
            send(signal.SIGINT)
        assert not interrupts.hurried.is_set()

        send(signal.SIGTERM)

        assert interrupts.hurried.is_set()


def test_an_end_that_has_begun_is_not_interrupted() -> None:
    with interruptible() as interrupts:
        interrupts.end()

        send(signal.SIGINT)

        assert interrupts.hurried.is_set()


def test_what_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    with interruptible():
        send(signal.SIGHUP)

    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


def test_the_handlers_of_before_come_back() -> None:
    before = signal.getsignal(signal.SIGINT)

    with interruptible():
        assert signal.getsignal(signal.SIGINT) != before

    assert signal.getsignal(signal.SIGINT) == before


def test_without_signals_nobody_hurries() -> None:
    assert not Interrupts().hurried.is_set()
