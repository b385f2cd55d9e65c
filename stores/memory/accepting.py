"""Accept: the one INSERT that makes a turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnchain.orchestrator_core.contracts import Acceptance, TurnRequest
from turnchain.orchestrator_core.errors import (
    InvalidInputError,
    SessionOwnerError,
    TurnConflictError,
    UnknownOrchestratorError,
)
from turnchain.stores.memory.base import Part
from turnchain.stores.memory.turns import TurnRow


class Accepting(Part):
    """How turns get in."""

    def accept(
        self,
        request: TurnRequest,
        *,
        request_hash: str,
        known: Sequence[str] | None = None,
        connection: Any = None,
    ) -> Acceptance:
        """As `Ledger.accept`. No caller's transaction can be joined: a `connection` is refused."""
        if connection is not None:
            raise InvalidInputError(
                "connection: the memory store has none to write on; leave it out"
            )
        with self.tables.lock:
            earlier = self._same_turn(request, request_hash)
            if earlier is None:
                self._check_owner(request)
                earlier = self._same_key(request, request_hash)
            if earlier is not None:
                return Acceptance(turn=earlier.record(), created=False)
            self._check_known(request, known)
            self._check_index(request)
            row = self._insert(request, request_hash)
            return Acceptance(turn=row.record(), created=True)

    def _same_turn(self, request: TurnRequest, request_hash: str) -> TurnRow | None:
        row = self.tables.turns.get(request.turn_id)
        if row is None:
            return None
        asked = (request.session, request.owner, request_hash)
        if (row.session, row.owner, row.request_hash) != asked:
            raise TurnConflictError(
                f"turn id {request.turn_id!r} was used for a different request: mint a new id",
                {"turn_id": request.turn_id, "reason": "turn-id"},
            )
        return row

    def _same_key(self, request: TurnRequest, request_hash: str) -> TurnRow | None:
        if request.idempotency_key is None:
            return None
        for row in self.tables.of_session(request.session):
            if row.idempotency_key != request.idempotency_key:
                continue
            if row.request_hash != request_hash:
                raise TurnConflictError(
                    f"idempotency_key {request.idempotency_key!r} was used for a different request "
                    f"(turn {row.turn_id!r}): use one key for one request",
                    {"turn_id": row.turn_id, "reason": "idempotency-key"},
                )
            return row
        return None

    def _check_owner(self, request: TurnRequest) -> None:
        session = self.tables.sessions.get(request.session)
        owners = [row.owner for row in self.tables.of_session(request.session)]
        if session:
            owners.append(session.owner)
        if any(owner != request.owner for owner in owners):
            raise SessionOwnerError(
                f"session {request.session.session_id!r} belongs to another tenant or user",
                {"session_id": request.session.session_id},
            )

    def _check_known(self, request: TurnRequest, known: Sequence[str] | None) -> None:
        names = sorted(self.tables.announced if known is None else known)
        name = request.session.orchestrator_name
        if name in names or (known is None and not names):
            return
        raise UnknownOrchestratorError(
            f"orchestrator {name!r} is not known; known are: {', '.join(names) or 'none'}",
            {"orchestrator_name": name, "known": names},
        )

    def _check_index(self, request: TurnRequest) -> None:
        expected = request.expected_turn_index
        if expected is None:
            return
        # Those that are not settled stand before this turn and may each take an index.
        ahead = sum(not row.status.is_final for row in self.tables.of_session(request.session))
        following = self.tables.head(request.session) + 1 + ahead
        if expected != following:
            raise TurnConflictError(
                f"expected_turn_index is {expected}, but the next turn of session "
                f"{request.session.session_id!r} would get {following}: read the session again",
                {"expected": expected, "actual": following, "reason": "turn-index"},
            )

    def _insert(self, request: TurnRequest, request_hash: str) -> TurnRow:
        row = TurnRow(
            turn_id=request.turn_id,
            seq=len(self.tables.turns) + 1,
            session=request.session,
            owner=request.owner,
            run_id=request.run_id or request.turn_id,
            runner=request.runner,
            priority=request.priority,
            deadline=request.deadline,
            accepted_at=self.tables.now(),
            idempotency_key=request.idempotency_key,
            request_hash=request_hash,
            request=request.model_dump_json(),
        )
        self.tables.turns[row.turn_id] = self.tables.unfinished[row.turn_id] = row
        self.tables.by_session.setdefault(row.session, []).append(row)
        return row
