"""Admit: which queued turns may run now."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

from turnchain.orchestrator_core.contracts import SessionKey, TurnId, TurnStatus, Wake
from turnchain.stores.memory.base import Part
from turnchain.stores.memory.processes import slots_of
from turnchain.stores.memory.turns import TurnRow


class Admitting(Part):
    """How queued turns start."""

    def admit(self, max_in_flight: int | None = None) -> list[Wake]:
        """As `Ledger.admit`. Within a session priority does not change the order accepted."""
        with self.tables.lock:
            now = self.tables.now()
            flying = [
                row
                for row in self.tables.unfinished.values()
                if row.runner == "celery" and row.is_in_flight(now)
            ]
            capacity = max_in_flight if max_in_flight is not None else self._capacity(now)
            waiting = [row for row in self.next_turns().values() if row.runner == "celery"]
            tenants = Counter(row.owner.tenant for row in flying)
            wakes: list[Wake] = []
            while waiting and len(flying) + len(wakes) < capacity:
                chosen = min(
                    waiting, key=lambda row: (row.priority, tenants[row.owner.tenant], row.seq)
                )
                waiting.remove(chosen)
                tenants[chosen.owner.tenant] += 1
                wakes.append(_start(chosen, now))
            return wakes

    def admit_turn(self, turn_id: TurnId) -> Wake | None:
        """As `Ledger.admit_turn`."""
        with self.tables.lock:
            row = self.tables.turns.get(turn_id)
            if row is None or row.status is not TurnStatus.QUEUED:
                return None
            row.woken_at = self.tables.now()
            if self.next_turns().get(row.session) is not row:
                return None
            return _start(row, self.tables.now())

    def next_turns(self) -> dict[SessionKey, TurnRow]:
        """The first queued turn of each session that has no running or paused one."""
        first: dict[SessionKey, TurnRow] = {}
        busy: set[SessionKey] = set()
        for row in self.tables.unfinished.values():
            if row.status is TurnStatus.QUEUED:
                first.setdefault(row.session, row)
            elif not row.status.is_final:
                busy.add(row.session)
        return {session: row for session, row in first.items() if session not in busy}

    def _capacity(self, now: datetime) -> int:
        return max(1, sum(slots_of(process, now) for process in self.tables.processes.values()))


def _start(row: TurnRow, now: datetime) -> Wake:
    row.status, row.admitted_at = TurnStatus.RUNNING, now
    row.make_ready(now)
    return row.wake
