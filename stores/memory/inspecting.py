"""What an operator reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from turnchain.orchestrator_core.contracts import (
    COUNT_LIMIT,
    Outcome,
    Position,
    ProcessRecord,
    SessionFilter,
    SessionKey,
    SessionPage,
    SessionSummary,
    Surroundings,
    TurnEvent,
    TurnFacts,
    TurnFilter,
    TurnId,
    TurnPage,
    TurnStatus,
)
from turnchain.orchestrator_core.standing import is_stuck
from turnchain.stores.memory.base import Part
from turnchain.stores.memory.processes import FRESH
from turnchain.stores.memory.tables import SessionRow
from turnchain.stores.memory.turns import TurnRow


class MemoryInspection(Part):
    """`Inspection` of this process's memory."""

    def turns(self, wanted: TurnFilter, limit: int) -> TurnPage:
        """As `Inspection.turns`."""
        with self.tables.lock:
            around = self._around()
            found: list[TurnRow] = []
            for row in reversed(self.tables.turns.values()):
                if len(found) == limit:
                    break
                if _is_wanted(row, wanted) and self._is_stuck(row, around, wanted):
                    found.append(row)
            return TurnPage(around.now, tuple(row.record() for row in found))

    def sessions(self, wanted: SessionFilter, limit: int) -> SessionPage:
        """As `Inspection.sessions`."""
        with self.tables.lock:
            now = self.tables.now()
            begun = [
                self._summary(key, row)
                for key, row in self.tables.sessions.items()
                if wanted.orchestrator_name in (None, key.orchestrator_name)
                and wanted.session_id in (None, key.session_id)
            ]
            found = [
                each for each in begun if wanted.before is None or each.created_at < wanted.before
            ]
            found.sort(key=lambda each: each.created_at, reverse=True)
            last = found[limit - 1].created_at if len(found) > limit else None
            return SessionPage(
                now, tuple(each for each in found if last is None or each.created_at >= last)
            )

    def facts(self, turn_id: TurnId) -> TurnFacts | None:
        """As `Inspection.facts`."""
        with self.tables.lock:
            row = self.tables.turns.get(turn_id)
            if row is None:
                return None
            queued = [
                each for each in _queued(self.tables.of_session(row.session)) if each.seq < row.seq
            ]
            before = self._live(row.session) or next(iter(queued), None)
            waits = row.status is TurnStatus.QUEUED
            return TurnFacts(
                position=self._position(row),
                before=self._position(before) if waits and before else None,
                queued_before=min(len(queued), COUNT_LIMIT) if waits else 0,
                preferred=self._preferred(row) if waits and before is None else 0,
                around=self._around(),
            )

    # -- parts

    def _around(self) -> Surroundings:
        now = self.tables.now()
        processes = sorted(self.tables.processes.values(), key=lambda each: each.process_id)
        beats = [each.heartbeat_at for each in processes if each.heartbeat_at is not None]
        return Surroundings(
            now=now,
            swept_at=self.tables.swept_at,
            processes=tuple(each for each in processes if _is_alive(each, now)),
            last_heartbeat_at=max(beats, default=None),
            in_flight=sum(
                row.runner == "celery" and row.is_in_flight(now)
                for row in self.tables.unfinished.values()
            ),
        )

    def _position(self, row: TurnRow) -> Position:
        event = TurnEvent.model_validate_json(row.events[-1]) if row.events else None
        outcome = Outcome.model_validate_json(row.outcome) if row.outcome else None
        run = self.tables.runs.get(row.run_id)
        steps = [step for (run_id, _), step in self.tables.steps.items() if run_id == row.run_id]
        return Position(
            turn=row.record(),
            wakes=row.wakes,
            woken_at=row.woken_at,
            last_event=event.type if event else None,
            last_event_at=event.at if event else None,
            iterations=len(run.iterations) if run else 0,
            open_steps=sum(step.status == "intended" for step in steps),
            error_code=str(outcome.error["code"]) if outcome and outcome.error else None,
        )

    def _live(self, session: SessionKey) -> TurnRow | None:
        live = (TurnStatus.RUNNING, TurnStatus.PAUSED)
        return next((row for row in self.tables.of_session(session) if row.status in live), None)

    def _preferred(self, row: TurnRow) -> int:
        before = [
            each
            for each in self.tables.unfinished.values()
            if each.runner == "celery"
            and each.owner.tenant == row.owner.tenant
            and (each.priority, each.seq) < (row.priority, row.seq)
            and self._first(each.session) is each
        ]
        return min(len(before), COUNT_LIMIT)

    def _first(self, session: SessionKey) -> TurnRow | None:
        """The session's next turn to be admitted, if it holds up none."""
        if self._live(session):
            return None
        return next(iter(_queued(self.tables.of_session(session))), None)

    def _is_stuck(self, row: TurnRow, around: Surroundings, wanted: TurnFilter) -> bool:
        queues = wanted.stuck_on
        if queues is None:
            return True
        rows = [row]
        if row.status is TurnStatus.QUEUED:
            before = self._live(row.session) or self._first(row.session)
            rows += [before] if before else []
        return any(is_stuck(each.record(), each.woken_at, around, queues) for each in rows)

    def _summary(self, key: SessionKey, session: SessionRow) -> SessionSummary:
        rows = self.tables.of_session(key)
        return SessionSummary(
            session=key,
            owner=session.owner,
            created_at=session.created_at,
            head_turn_index=session.head,
            queued=min(len(_queued(rows)), COUNT_LIMIT),
            last_turn=rows[-1].record() if rows else None,
        )


def _is_alive(process: ProcessRecord, now: datetime) -> bool:
    beat = process.heartbeat_at
    return beat is not None and timedelta(0) <= now - beat < FRESH


def _queued(rows: Iterable[TurnRow]) -> Sequence[TurnRow]:
    return [row for row in rows if row.status is TurnStatus.QUEUED]


def _is_wanted(row: TurnRow, wanted: TurnFilter) -> bool:
    return (
        wanted.orchestrator_name in (None, row.session.orchestrator_name)
        and wanted.session_id in (None, row.session.session_id)
        and wanted.status in (None, row.status)
        and (wanted.before is None or row.seq < wanted.before)
    )
