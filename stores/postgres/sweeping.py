"""What puts turns back on their way: takeover, rewake, and the rhythm of the sweep."""

from __future__ import annotations

from datetime import timedelta

from turnchain.orchestrator_core.contracts import TurnRecord, Wake
from turnchain.orchestrator_core.ports import ENGINE_SILENCE
from turnchain.stores.postgres import rows
from turnchain.stores.postgres.base import Part
from turnchain.stores.postgres.ending import (
    after_loss,
    after_silence,
    end_params,
    stand_params,
)


class Sweeping(Part):
    """How the ledger repairs what processes left behind."""

    def begin_sweep(self, interval: timedelta, lease: timedelta) -> bool:
        """As `Ledger.begin_sweep`."""
        params = {"interval": interval, "lease": lease}
        if not self._connections.run_safely("begin_sweep", params):
            return False
        self._connections.run_safely("heal_queue", {})
        return True

    def take_over_expired(
        self,
        max_attempts: int,
        limit: int = 100,
        *,
        silence: timedelta = ENGINE_SILENCE,
        only_engines: bool = False,
    ) -> list[Wake]:
        """As `Ledger.take_over_expired`, the longest expired first."""
        abandoned = self._connections.run_safely("abandoned", {"silence": silence, "limit": limit})
        for turn in map(rows.turn, abandoned):
            self.end_unowned(turn, after_silence(turn))
        found = self._connections.run_safely(
            "expired", {"limit": limit, "only_engines": only_engines}
        )
        turns = [rows.turn(row) for row in found]
        wakes = [self._take_from_owner(turn, max_attempts, died=False) for turn in turns]
        return [wake for wake in wakes if wake is not None]

    def take_over(
        self, wake: Wake, *, process_id: str, max_attempts: int, exactly: bool = False
    ) -> Wake | None:
        """As `Ledger.take_over`."""
        if not rows.is_wake(wake):
            return None
        found = self._connections.run_safely("get", {"turn_id": wake.turn_id})
        if not found or found[0]["lease_owner"] is None or found[0]["fence"] != wake.fence:
            return None
        turn = rows.turn(found[0])
        if turn.stage.order < wake.stage.order or (exactly and turn.stage is not wake.stage):
            return None
        if (turn.lease_owner or "").rpartition("/")[0] != process_id:
            return None
        return self._take_from_owner(turn, max_attempts, died=True)

    def _take_from_owner(self, turn: TurnRecord, max_attempts: int, *, died: bool) -> Wake | None:
        """Make the turn ready, or end it; None also if it stands otherwise by now."""
        ending = after_loss(turn, max_attempts)
        if ending is None:
            params = {**stand_params(turn), "died": died}
            found = self._connections.run_safely("take_over", params, durable=True)
            return rows.wake(found[0]) if found else None
        params = end_params(turn, ending, lost=True, died=died)
        self._connections.run_safely("end_turn", params, durable=True)
        return None

    def rewake(self, first: timedelta, longest: timedelta, limit: int = 500) -> list[Wake]:
        """As `Ledger.rewake`, in the order accepted."""
        params = {"first": first, "longest": longest, "limit": limit}
        return [rows.wake(row) for row in self._connections.run_safely("rewake", params)]
