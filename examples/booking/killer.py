"""The storm: kills workers and children again and again while turns are played."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from turnchain.examples.booking.fleet import Worker


@dataclass(slots=True)
class Killer:
    """SIGKILLs a child every 2 s and a whole worker every 5 s, which is then started again as an init system would."""

    workers: Sequence[Worker]
    child_seconds: float = 2.0
    worker_seconds: float = 5.0
    random: random.Random = field(default_factory=lambda: random.Random(7))
    killed: Counter[str] = field(default_factory=Counter[str])
    _stopped: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list[threading.Thread])
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Begin."""
        for seconds, act in (
            (self.child_seconds, self._kill_child),
            (self.worker_seconds, self._kill_worker),
        ):
            thread = threading.Thread(target=self._every, args=(seconds, act), daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """End, with every worker running."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def _every(self, seconds: float, act: Callable[[], None]) -> None:
        while not self._stopped.wait(seconds):
            act()

    def _kill_child(self) -> None:
        with self._lock:
            children = [pid for worker in self.workers for pid in worker.children()]
            if children:
                with suppress(ProcessLookupError):
                    os.kill(self.random.choice(children), signal.SIGKILL)
                    self.killed["children"] += 1

    def _kill_worker(self) -> None:
        with self._lock:
            worker = self.random.choice(self.workers)
            worker.kill()
            self.killed["workers"] += 1
            worker.start()
