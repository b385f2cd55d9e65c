"""Accept: the one INSERT that makes a turn."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from turnchain.orchestrator_core.contracts import Acceptance, TurnRequest
from turnchain.orchestrator_core.errors import (
    SessionOwnerError,
    StoreUnavailableError,
    TurnConflictError,
    UnknownOrchestratorError,
)
from turnchain.stores.postgres import rows
from turnchain.stores.postgres.base import Part
from turnchain.stores.postgres.callers import Texts, of_caller, own
from turnchain.stores.postgres.connection import Params

Found = dict[str, Any]
"""What `look` returns."""


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
        """As `Ledger.accept`.

        A turn of the same id or key that another transaction is just writing is waited for: only
        then is it known which of the two it is.
        """
        run = own(self._connections) if connection is None else of_caller(connection)
        params = {
            **rows.request_params(request, request_hash),
            "asks_announced": known is None,
        }
        # Nearly all are new and right, which the statement itself sees; an expected index it does not.
        is_known = known is None or request.session.orchestrator_name in known
        plain = is_known and request.expected_turn_index is None
        if plain and (text := run("accept", params)):
            return _created(text)
        found = _look(run, params)
        if earlier := _earlier(request, request_hash, found):
            return earlier
        _check_known(request, known, found)
        _check_index(request, found)
        if text := run("accept", params):
            return _created(text)
        # Somebody was faster, and has committed by now.
        if earlier := _earlier(request, request_hash, _look(run, params)):
            return earlier
        raise StoreUnavailableError(
            f"turn {request.turn_id!r} was accepted by another transaction that this one cannot "
            "see: repeat it in a new transaction",
            {"turn_id": request.turn_id},
        )


def _created(text: str) -> Acceptance:
    return Acceptance(turn=rows.turn(json.loads(text)), created=True)


def _look(run: Texts, params: Params) -> Found:
    return json.loads(run("look", params) or "{}")


def _earlier(request: TurnRequest, request_hash: str, found: Found) -> Acceptance | None:
    """The turn that this request has made before, if the two are the same."""
    row = found["same_turn"]
    if row and not _is_same(request, request_hash, row):
        raise TurnConflictError(
            f"turn id {request.turn_id!r} was used for a different request: mint a new id",
            {"turn_id": request.turn_id, "reason": "turn-id"},
        )
    if not row:
        _check_owner(request, found)
        row = found["same_key"]
        if row and row["request_hash"] != request_hash:
            raise TurnConflictError(
                f"idempotency_key {request.idempotency_key!r} was used for a different request "
                f"(turn {row['turn_id']!r}): use one key for one request",
                {"turn_id": row["turn_id"], "reason": "idempotency-key"},
            )
    return Acceptance(turn=rows.turn(row), created=False) if row else None


def _is_same(request: TurnRequest, request_hash: str, row: rows.Row) -> bool:
    record = rows.turn(row)
    asked = (request.session, request.owner, request_hash)
    return (record.session, record.owner, row["request_hash"]) == asked


def _check_owner(request: TurnRequest, found: Found) -> None:
    owner = found["owner"]
    if owner and owner != request.owner.model_dump():
        raise SessionOwnerError(
            f"session {request.session.session_id!r} belongs to another tenant or user",
            {"session_id": request.session.session_id},
        )


def _check_known(request: TurnRequest, known: Sequence[str] | None, found: Found) -> None:
    names = sorted(found["announced"] or () if known is None else known)
    name = request.session.orchestrator_name
    if name in names or (known is None and not names):
        return
    raise UnknownOrchestratorError(
        f"orchestrator {name!r} is not known; known are: {', '.join(names) or 'none'}",
        {"orchestrator_name": name, "known": names},
    )


def _check_index(request: TurnRequest, found: Found) -> None:
    expected, following = request.expected_turn_index, found["next_index"]
    if expected is None or expected == following:
        return
    raise TurnConflictError(
        f"expected_turn_index is {expected}, but the next turn of session "
        f"{request.session.session_id!r} would get {following}: read the session again",
        {"expected": expected, "actual": following, "reason": "turn-index"},
    )
