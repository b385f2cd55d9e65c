"""Hearing of settled turns."""

from __future__ import annotations

from datetime import timedelta
from threading import Condition

from turnchain.orchestrator_core.contracts import TurnId


class MemoryListener:
    """`Listener` of the memory driver. `hear` is called under the tables' lock, `wait` never is."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._heard: set[TurnId] = set()

    def hear(self, turn_id: TurnId) -> None:
        """Note a settled turn."""
        with self._changed:
            self._heard.add(turn_id)
            self._changed.notify_all()

    def wait(self, timeout: timedelta) -> frozenset[TurnId]:
        """As `Listener.wait`."""
        with self._changed:
            self._changed.wait_for(lambda: self._heard, timeout.total_seconds())
            heard = frozenset(self._heard)
            self._heard.clear()
            return heard
