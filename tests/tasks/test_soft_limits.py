from __future__ import annotations

import os
import signal
import threading
from collections.abc import Generator

import pytest
from billiard.exceptions import SoftTimeLimitExceeded
from billiard.pool import SIG_SOFT_TIMEOUT, soft_timeout_sighandler

from turnchain.tasks.soft_limits import unheard


@pytest.fixture
def _child() -> Generator[None]:
    """What a prefork child has for its soft limits."""
    before = signal.signal(SIG_SOFT_TIMEOUT, soft_timeout_sighandler)
    yield
    signal.signal(SIG_SOFT_TIMEOUT, before)


def expire() -> None:
    os.kill(os.getpid(), SIG_SOFT_TIMEOUT)


@pytest.mark.usefixtures("_child")
def test_a_soft_limit_passes_by_a_stage_and_is_heard_behind_it() -> None:
    with unheard():
        expire()

    with pytest.raises(SoftTimeLimitExceeded):
        expire()


@pytest.mark.usefixtures("_child")
def test_it_is_heard_behind_a_stage_that_failed() -> None:
    with pytest.raises(ZeroDivisionError), unheard():
        raise ZeroDivisionError

    assert signal.getsignal(SIG_SOFT_TIMEOUT) is soft_timeout_sighandler


def test_where_the_signal_means_something_else_it_is_left_alone() -> None:
    heard: list[int] = []
    before = signal.signal(SIG_SOFT_TIMEOUT, lambda number, _: heard.append(number))
    try:
        with unheard():
            expire()
    finally:
        signal.signal(SIG_SOFT_TIMEOUT, before)

    assert heard == [SIG_SOFT_TIMEOUT]


@pytest.mark.usefixtures("_child")
def test_a_thread_of_a_pool_touches_no_signal() -> None:
    seen: list[object] = []

    def stage() -> None:
        with unheard():
            seen.append(signal.getsignal(SIG_SOFT_TIMEOUT))

    thread = threading.Thread(target=stage)
    thread.start()
    thread.join()

    assert seen == [soft_timeout_sighandler]
