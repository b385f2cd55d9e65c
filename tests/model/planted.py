"""Ledgers with one fault each, as small as a slip of a hand."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from turnchain.orchestrator_core.contracts import (
    JSON,
    Claim,
    Owner,
    Refusal,
    SessionKey,
    TurnId,
    Wake,
)
from turnchain.orchestrator_core.ports import CancelReceipt
from turnchain.orchestrator_core.refusals import cancelled
from turnchain.stores.memory import MemoryLedger, MemoryUnit
from turnchain.stores.memory.ending import end
from turnchain.stores.memory.turns import TurnRow

WAIT = timedelta(seconds=20)


class ClaimsWithoutLookingForAnOwner(MemoryLedger):
    """`AND lease_owner IS NULL` forgotten."""

    def refusal(self, row: TurnRow, wake: Wake, now: datetime) -> Refusal | None:
        refusal = super().refusal(row, wake, now)
        return None if refusal and refusal.reason == "owned" else refusal


class ReadyTurnsExpire(MemoryLedger):
    """Waiting is death."""

    def take_over_expired(self, max_attempts: int, limit: int = 100, **more: Any) -> list[Wake]:
        now = self.tables.now()
        late = [
            row
            for row in self.tables.unfinished.values()
            if row.is_ready(now) and row.woken_at and row.woken_at + WAIT <= now
        ]
        wakes = [self.take_from_owner(row, max_attempts) for row in late]
        return [wake for wake in wakes if wake] + super().take_over_expired(
            max_attempts, limit, **more
        )


class WritesAreNotGuarded(MemoryLedger):
    """A hand-over, a step, an iteration without `WHERE fence AND lease_owner`."""

    def held(self, claim: Claim) -> TurnRow:
        return self.tables.turns[claim.turn.turn_id]


class TakeoverKeepsTheFence(MemoryLedger):
    """The former owner and the next look the same."""

    def take_from_owner(self, row: TurnRow, max_attempts: int) -> Wake | None:
        taken = super().take_from_owner(row, max_attempts)
        row.fence -= 1
        return row.wake if taken else None


class HandBackKeepsTheFence(MemoryLedger):
    """Its message is the one that was answered before."""

    def hand_back(self, claim: Claim) -> Wake | None:
        handed_back = super().hand_back(claim)
        if handed_back is None:
            return None
        row = self.tables.turns[claim.turn.turn_id]
        row.fence -= 1
        return row.wake


class RewakeCountsAttempts(MemoryLedger):
    """A slow broker kills turns."""

    def rewake(self, first: timedelta, longest: timedelta, limit: int = 500) -> list[Wake]:
        wakes = super().rewake(first, longest, limit)
        for wake in wakes:
            self.tables.turns[wake.turn_id].attempts += 1
        return wakes


class RewakeForgets(MemoryLedger):
    """A lost message is lost."""

    def rewake(self, first: timedelta, longest: timedelta, limit: int = 500) -> list[Wake]:
        return []


class AdmitIgnoresRunningSessions(MemoryLedger):
    """Two turns of a session at once."""

    def next_turns(self) -> dict[SessionKey, TurnRow]:
        queued = [row for row in self.tables.unfinished.values() if row.status == "queued"]
        return {row.session: row for row in reversed(queued)}


class AdmitTakesTheLatest(MemoryLedger):
    """ORDER BY seq DESC."""

    def next_turns(self) -> dict[SessionKey, TurnRow]:
        queued = {
            row.session: row for row in self.tables.unfinished.values() if row.status == "queued"
        }
        return {session: queued[session] for session in super().next_turns()}


class UnitsAreTorn(MemoryLedger):
    """The hand-over commits in a transaction of its own."""

    @contextmanager
    def unit(self, claim: Claim, *, durable: bool) -> Generator[MemoryUnit]:
        unit = MemoryUnit(self.tables, claim)
        try:
            yield unit
        except BaseException:
            unit.writes.pop()
            unit.commit(self.held(claim))
            raise
        unit.commit(self.held(claim))


class ProgressIsNotCounted(MemoryLedger):
    """Ten crashes in ten iterations are death."""

    @contextmanager
    def unit(self, claim: Claim, *, durable: bool) -> Generator[MemoryUnit]:
        attempts = claim.turn.attempts
        with super().unit(claim, durable=durable) as unit:
            yield unit
        self.tables.turns[claim.turn.turn_id].attempts = attempts


class StepResultsAreLost(MemoryLedger):
    """Acknowledged, and not there for the next attempt."""

    def finish_step(self, claim: Claim, run_id: str, effect_key: str, result: JSON) -> None:
        super().finish_step(claim, run_id, effect_key, result)
        del self.tables.steps[run_id, effect_key]


class CancelEndsOwnedTurns(MemoryLedger):
    """Under the hands of their owners."""

    def request_cancel(self, turn_id: TurnId, owner: Owner) -> CancelReceipt:
        receipt = super().request_cancel(turn_id, owner)
        row: Any = self.tables.turns.get(turn_id)
        if receipt == "requested":
            end(self.tables, row, cancelled())
        return receipt


class TakeoverMessagesAreBelieved(MemoryLedger):
    """Whoever owns the turn now loses it to a message about an earlier owner."""

    def take_over(
        self, wake: Wake, *, process_id: str, max_attempts: int, exactly: bool = False
    ) -> Wake | None:
        row = self.tables.turns.get(wake.turn_id)
        if row is None or row.lease_owner is None:
            return None
        owner = row.lease_owner.rpartition("/")[0]
        return super().take_over(row.wake, process_id=owner, max_attempts=max_attempts)


class NoGraceAfterAStepBack(MemoryLedger):
    """Nobody sweeps until the database's clock is where it was."""

    def begin_sweep(self, interval: timedelta, lease: timedelta) -> bool:
        now, last = self.tables.now(), self.tables.swept_at
        if last is not None and now < last + interval:
            return False
        self.tables.swept_at = now
        return True


PLANTED = (
    ClaimsWithoutLookingForAnOwner,
    ReadyTurnsExpire,
    WritesAreNotGuarded,
    TakeoverKeepsTheFence,
    HandBackKeepsTheFence,
    RewakeCountsAttempts,
    RewakeForgets,
    AdmitIgnoresRunningSessions,
    AdmitTakesTheLatest,
    UnitsAreTorn,
    ProgressIsNotCounted,
    StepResultsAreLost,
    CancelEndsOwnedTurns,
    TakeoverMessagesAreBelieved,
    NoGraceAfterAStepBack,
)
