"""What puts turns back on their way: takeover, rewake, and the rhythm of the sweep."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from turnchain.orchestrator_core.contracts import Wake
from turnchain.orchestrator_core.ports import ENGINE_SILENCE
from turnchain.orchestrator_core.refusals import dead, interrupted
from turnchain.stores.memory.base import Part
from turnchain.stores.memory.ending import end, give_up_compaction
from turnchain.stores.memory.turns import TurnRow

_MOST_DOUBLINGS: Final = 30
"""Far beyond any longest wait, and far below what a duration can hold."""


class Sweeping(Part):
    """How the ledger repairs what processes left behind."""

    def begin_sweep(self, interval: timedelta, lease: timedelta) -> bool:
        """As `Ledger.begin_sweep`.

        A gap is counted beyond the interval: with leases shorter than that, every sweep would
        follow a "gap", and grace for ever would mean that nothing ever expires.
        """
        with self.tables.lock:
            now, last = self.tables.now(), self.tables.swept_at
            if last is not None and last <= now < last + interval:
                return False
            self.tables.swept_at = now
            # Of the time before the first sweep nobody knows whether the clock was set.
            if last is None or now < last or now - last > interval + lease:
                for row in self.tables.unfinished.values():
                    self._grant_grace(row, now, lease)
            return True

    def _grant_grace(self, row: TurnRow, now: datetime, lease: timedelta) -> None:
        if row.lease_owner is not None and row.runner == "celery":  # an engine's lease is long
            row.lease_expires_at = now + lease
        # After a step backward, earlier instants lie in the future: do not wait for them.
        if row.ready_at is not None:
            row.ready_at = min(row.ready_at, now + lease if row.parked else now)
        if row.woken_at is not None:
            row.woken_at = min(row.woken_at, now)

    def take_over_expired(
        self,
        max_attempts: int,
        limit: int = 100,
        *,
        silence: timedelta = ENGINE_SILENCE,
        only_engines: bool = False,
    ) -> list[Wake]:
        """As `Ledger.take_over_expired`, the longest expired first."""
        with self.tables.lock:
            now = self.tables.now()
            rows = list(self.tables.unfinished.values())
            for row in [row for row in rows if _is_abandoned(row, now - silence)][:limit]:
                if row.status.is_final:
                    give_up_compaction(self.tables, row)
                else:
                    end(self.tables, row, interrupted())
            late = [row for row in rows if row.is_expired(now)]
            late = [row for row in late if row.runner == "engine" or not only_engines]
            late.sort(key=lambda row: (row.lease_expires_at or now, row.seq))
            wakes = [self.take_from_owner(row, max_attempts) for row in late[:limit]]
            return [wake for wake in wakes if wake is not None]

    def take_over(
        self, wake: Wake, *, process_id: str, max_attempts: int, exactly: bool = False
    ) -> Wake | None:
        """As `Ledger.take_over`."""
        with self.tables.lock:
            row = self.tables.turns.get(wake.turn_id)
            if row is None or row.lease_owner is None or row.fence != wake.fence:
                return None
            if row.stage.order < wake.stage.order or (exactly and row.stage is not wake.stage):
                return None
            if row.lease_owner.rpartition("/")[0] != process_id:
                return None
            return self.take_from_owner(row, max_attempts)

    def take_from_owner(self, row: TurnRow, max_attempts: int) -> Wake | None:
        """Count the loss of an owner, and make the turn ready; or end it, and publish nothing."""
        row.fence += 1
        row.attempts += 1
        given_up = row.runner == "engine" or row.attempts >= max_attempts
        if not given_up:
            row.takeovers += 1
            row.make_ready(self.tables.now())
            return row.wake
        if row.status.is_final:
            give_up_compaction(self.tables, row)
        else:
            end(self.tables, row, interrupted() if row.runner == "engine" else dead(row.attempts))
        return None

    def rewake(self, first: timedelta, longest: timedelta, limit: int = 500) -> list[Wake]:
        """As `Ledger.rewake`, in the order accepted."""
        with self.tables.lock:
            now = self.tables.now()
            due = [
                row for row in self.tables.unfinished.values() if _is_due(row, now, first, longest)
            ]
            for row in due[:limit]:
                if row.parked is not None:
                    row.make_ready(now)
                else:
                    row.wakes, row.woken_at = row.wakes + 1, now
            return [row.wake for row in due[:limit]]


def _is_abandoned(row: TurnRow, before: datetime) -> bool:
    """Whether the engine of a turn without an owner has given no sign of life since then."""
    waits = row.runner == "engine" and row.lease_owner is None
    return waits and (row.woken_at or row.accepted_at) <= before


def _is_due(row: TurnRow, now: datetime, first: timedelta, longest: timedelta) -> bool:
    if row.runner != "celery" or not row.is_ready(now):
        return False
    if row.parked is not None or row.woken_at is None:
        return True
    wait = min(first * 2 ** min(row.wakes, _MOST_DOUBLINGS), longest)
    # Woken in the future: the clock was set back since, and there is nothing to wait for.
    return now < row.woken_at or now >= row.woken_at + wait
