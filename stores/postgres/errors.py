"""Errors of Postgres, and of whoever talks to it for a caller, as ours: told apart by SQLSTATE."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from turnchain.orchestrator_core.errors import (
    InvalidInputError,
    LeaseLost,
    SchemaMissingError,
    SessionOwnerError,
    StopAsked,
    StoreUnavailableError,
    TurnConflictError,
)

LEASE_LOST: Final = "TC001"
INDEX_TAKEN: Final = "TC002"
FOREIGN_SESSION: Final = "TC003"
STOP_ASKED: Final = "TC004"

_NO_TABLE: Final = frozenset({"42P01", "42883", "42703", "3F000"})
"""Undefined table, function, column; no such schema."""
_UNIQUE: Final = "23505"
_DATA: Final = "22"
_LOCKED: Final = "55P03"
_SLOW: Final = "57014"
_REPEAT: Final = frozenset({
    None, "0A000", "40001", "40P01", "57P01", "57P02", "57P03", "57P05", "25P03", "08000", "08003", "08006",
})  # fmt: skip
"""Over in a moment: a broken connection (no SQLSTATE at all), a deadlock, a server that restarts."""


def sqlstate_of(error: BaseException) -> str | None:
    """The SQLSTATE, also where SQLAlchemy or Django have wrapped the driver's error."""
    seen: BaseException | None = error
    while seen is not None:
        state = getattr(seen, "sqlstate", None) or getattr(seen, "pgcode", None)
        if isinstance(state, str):
            return state
        seen = getattr(seen, "orig", None) or seen.__cause__
    return None


def translated(error: BaseException, where: str) -> BaseException:
    """Our error for one of the driver's. `where` names server and database, without a password."""
    state = sqlstate_of(error)
    if state == LEASE_LOST:
        return LeaseLost("the right to run this stage has gone to somebody else")
    if state == STOP_ASKED:
        return StopAsked()
    if state in (INDEX_TAKEN, _UNIQUE):
        return TurnConflictError(
            "another turn was settled at this index: read the session again",
            {"reason": "turn-conflict"},
        )
    if state == FOREIGN_SESSION:
        return SessionOwnerError("the session belongs to another tenant or user")
    if state in _NO_TABLE:
        return SchemaMissingError(
            f"{where} lacks Turnchain's tables ({_first_line(error)}): "
            "apply them with `turnchain schema | psql …`",
            {"server": where},
        )
    if state is None and _is_unsendable(error):
        return InvalidInputError("Postgres does not take NUL characters or half surrogate pairs")
    if state is not None and state.startswith(_DATA):
        return InvalidInputError(f"Postgres does not take a value: {_first_line(error)}")
    return StoreUnavailableError(
        f"{where} did not carry the request out: {_reason(state, error)}",
        {"server": where, "sqlstate": state, "repeat": state in _REPEAT},
    )


def is_passing(error: BaseException) -> bool:
    """Whether the same request may well succeed in a moment."""
    return isinstance(error, StoreUnavailableError) and bool(error.context.get("repeat"))


@contextmanager
def translating(kind: type[Exception], where: str) -> Generator[None]:
    """Raise ours for errors of this kind, the driver's."""
    try:
        yield
    except (UnicodeEncodeError, kind) as error:
        ours = translated(error, where)
        if isinstance(ours, InvalidInputError):
            # The driver's text quotes the value, and that is what a person wrote.
            raise ours from None
        raise ours from error


def _is_unsendable(error: BaseException) -> bool:
    """Whether the driver itself refused a text, before any server saw it."""
    names = {type(error).__name__, type(error.__cause__).__name__}
    return bool(names & {"DataError", "UnicodeEncodeError"})


def _reason(state: str | None, error: BaseException) -> str:
    if state == _LOCKED:
        return "another transaction holds what it writes for too long; commit or end that one"
    if state == _SLOW:
        return "it took longer than the statement timeout"
    return _first_line(error)


def _first_line(error: BaseException) -> str:
    # The first line is the server's message; DETAIL and CONTEXT below it may quote content.
    return (str(error).strip() or type(error).__name__).splitlines()[0]
