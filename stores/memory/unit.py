"""One transaction under one claim: collected in the block, checked and written when it ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from turnchain.orchestrator_core.contracts import Claim, NewEvent, Outcome, Stage, TurnWork
from turnchain.orchestrator_core.errors import SessionOwnerError, StopAsked
from turnchain.stores.memory.ending import finish, settle
from turnchain.stores.memory.tables import SessionRow, Tables
from turnchain.stores.memory.turns import TurnRow

Check = Callable[[], None]
Write = Callable[[TurnRow], None]


class MemoryUnit:
    """`Unit` of the memory driver; the other two stores put their writes into it as well."""

    def __init__(self, tables: Tables, claim: Claim) -> None:
        self.tables = tables
        self._claim = claim
        self._moves = False
        self._unless_stopped = False
        self.checks: list[Check] = []
        self.writes: list[Write] = []

    @property
    def claim(self) -> Claim:
        """As `Unit.claim`."""
        return self._claim

    def later(self, write: Write, check: Check | None = None) -> None:
        """Write when the unit ends, if no check of the whole unit objects."""
        self.writes.append(write)
        if check:
            self.checks.append(check)

    def commit(self, row: TurnRow) -> None:
        """All checks, then all writes. A write never raises: that would tear the unit."""
        if self._unless_stopped and row.is_stopped(self.tables.now()):
            raise StopAsked
        for check in self.checks:
            check()
        for write in self.writes:
            write(row)

    def add_events(self, events: Sequence[NewEvent]) -> None:
        """As `Unit.add_events`."""
        copies = [NewEvent.model_validate_json(event.model_dump_json()) for event in events]

        def write(row: TurnRow) -> None:
            for event in copies:
                row.add_event(event, self.tables.now())

        self.later(write)

    def mark_progress(self) -> None:
        """As `Unit.mark_progress`."""

        def write(row: TurnRow) -> None:
            row.attempts = 0

        self.later(write)

    def settle(self, outcome: Outcome, *, unless_stopped: bool = False) -> None:
        """As `Unit.settle`. A turn that has an outcome keeps it."""
        self._unless_stopped = unless_stopped
        copy = Outcome.model_validate_json(outcome.model_dump_json())
        self.later(lambda row: settle(self.tables, row, copy))

    def hand_over(self, stage: Stage, work: TurnWork | None = None) -> None:
        """As `Unit.hand_over`."""
        self._move(stage, work)

        def write(row: TurnRow) -> None:
            row.make_ready(self.tables.now())
            if stage is Stage.DONE:
                finish(self.tables, row)

        self.later(write)

    def keep(self, stage: Stage, work: TurnWork) -> None:
        """As `Unit.keep`."""
        self._move(stage, work)

    def _move(self, stage: Stage, work: TurnWork | None) -> None:
        text = None if work is None else work.model_dump_json()
        decided = work is not None and work.outcome is not None
        # A load that refuses the turn moves it to persist, and begins no session.
        begins = self._claim.turn.stage is Stage.LOAD and not self._moves and not decided
        self._moves = True

        def write(row: TurnRow) -> None:
            if begins:
                begun = SessionRow(owner=row.owner, created_at=self.tables.now())
                self.tables.sessions.setdefault(row.session, begun)
            if work is not None:
                row.work = text
                row.turn_index = row.turn_index if decided else work.turn_index
            row.stage, row.attempts = stage, 0

        self.later(write, self._check_owner if begins else None)

    def _check_owner(self) -> None:
        turn = self._claim.turn
        session = self.tables.sessions.get(turn.session)
        if session and session.owner != turn.owner:
            raise SessionOwnerError(
                f"session {turn.session.session_id!r} belongs to another tenant or user",
                {"session_id": turn.session.session_id},
            )
