"""What moves a running turn from owner to owner and from stage to stage."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta

from turnchain.orchestrator_core.contracts import Claim, Refusal, Renewal, Stage, TurnWork, Wake
from turnchain.orchestrator_core.errors import LeaseLost
from turnchain.stores.memory.base import Part
from turnchain.stores.memory.turns import TurnRow
from turnchain.stores.memory.unit import MemoryUnit


class Moving(Part):
    """How the right to run changes hands."""

    def claim(self, wake: Wake, lease_owner: str, lease: timedelta) -> Claim | Refusal:
        """As `Ledger.claim`."""
        with self.tables.lock:
            now = self.tables.now()
            row = self.tables.turns.get(wake.turn_id)
            refusal = Refusal(reason="unknown") if row is None else self.refusal(row, wake, now)
            if row is None or refusal is not None:
                return refusal or Refusal(reason="unknown")
            row.release()
            row.lease_owner, row.lease_expires_at = lease_owner, now + lease
            return Claim(
                turn=row.record(),
                request=row.read_request(),
                work=row.read_work(),
                lease_owner=lease_owner,
                late=row.deadline is not None and row.deadline <= now,
            )

    def refusal(self, row: TurnRow, wake: Wake, now: datetime) -> Refusal | None:
        """Why the wake's stage is not granted, or None."""
        if row.stage is Stage.DONE:
            return Refusal(reason="done")
        if (row.stage, row.fence) != (wake.stage, wake.fence):
            later = row.stage.order > wake.stage.order and row.is_ready(now)
            return Refusal(reason="moved-on", ahead=row.wake if later else None)
        if row.lease_owner is not None:
            return Refusal(reason="owned")
        return None if row.is_ready(now) else Refusal(reason="parked")

    @contextmanager
    def unit(self, claim: Claim, *, durable: bool) -> Generator[MemoryUnit]:
        """As `Ledger.unit`. Memory has nothing to be durable with: `durable` changes nothing."""
        unit = MemoryUnit(self.tables, claim)
        yield unit
        with self.tables.lock:
            unit.commit(self.held(claim))

    def park(
        self, claim: Claim, *, reason: str, wait: timedelta | None, stage: Stage, work: TurnWork
    ) -> None:
        """As `Ledger.park`."""
        with self.tables.lock:
            row = self.held(claim)
            row.release()
            row.stage, row.fence, row.work = stage, row.fence + 1, work.model_dump_json()
            row.parked = reason
            row.ready_at = None if wait is None else self.tables.now() + wait
            # An engine's sign of life; nobody wakes a parked turn by it.
            row.woken_at = self.tables.now() if row.runner == "engine" else None

    def hand_back(self, claim: Claim) -> Wake | None:
        """As `Ledger.hand_back`."""
        with self.tables.lock:
            try:
                row = self.owned(claim)
            except LeaseLost:
                return None
            row.fence += 1
            row.make_ready(self.tables.now())
            return row.wake

    def renew(self, claims: Sequence[Claim], lease: timedelta) -> list[Renewal]:
        """As `Ledger.renew`. A lease that ran out is renewed while nobody took the turn over."""
        with self.tables.lock:
            return [self._renewed(claim, lease) for claim in claims]

    def _renewed(self, claim: Claim, lease: timedelta) -> Renewal:
        try:
            row = self.owned(claim)
        except LeaseLost:
            return Renewal(renewed=False)
        now = self.tables.now()
        row.lease_expires_at = now + lease
        return Renewal(
            renewed=True,
            cancel_requested=row.cancel_requested_at is not None,
            deadline_passed=row.deadline is not None and row.deadline <= now,
        )
