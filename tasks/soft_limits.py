"""An app's soft time limit, which is not for our stages.

Raised inside an author's code it would be taken for the author's failure, and end the turn. Where a pool has one
(`--soft-time-limit`, `task_soft_time_limit`) none of its tasks can be without: None means the pool's. So the signal is
not heard while a stage runs; the stage's hard limit ends what runs too long, and the turn goes on elsewhere.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager

from billiard.pool import SIG_SOFT_TIMEOUT, soft_timeout_sighandler


@contextmanager
def unheard() -> Generator[None]:
    """Let a prefork child's soft time limit pass by for the length of the block."""
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(SIG_SOFT_TIMEOUT) is not soft_timeout_sighandler
    ):
        yield
        return
    signal.signal(SIG_SOFT_TIMEOUT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(SIG_SOFT_TIMEOUT, soft_timeout_sighandler)
