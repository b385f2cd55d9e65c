"""Every error that Turnchain raises, and how one is stored.

    TurnchainError
    ├── SupervisorFailedError            SUPERVISOR_FAILED
    │   ├── MaxIterationsError           SUPERVISOR_MAX_ITERATIONS
    │   ├── SupervisorRoutingError       SUPERVISOR_INVALID_ROUTE
    │   ├── SupervisorCancelledError     SUPERVISOR_CANCELLED
    │   └── SupervisorDriftError         SUPERVISOR_DRIFT
    ├── OrchestratorFailedError          ORCHESTRATOR_FAILED
    │   ├── OrchestratorConfigError      ORCHESTRATOR_CONFIG
    │   │   ├── InvalidInputError
    │   │   ├── UnknownOrchestratorError
    │   │   └── SettingsError
    │   ├── OrchestratorDriftError       ORCHESTRATOR_DRIFT
    │   ├── OrchestratorCancelledError   ORCHESTRATOR_CANCELLED
    │   ├── SessionOwnerError            SESSION_OWNER
    │   ├── TurnConflictError            TURN_CONFLICT
    │   ├── TurnInterruptedError         TURN_INTERRUPTED
    │   ├── TurnDeadError                TURN_DEAD
    │   ├── DeadlineExceededError        DEADLINE_EXCEEDED
    │   └── StepInDoubtError             STEP_IN_DOUBT
    ├── SchemaValidationError            SCHEMA_VALIDATION_FAILED
    ├── StoreUnavailableError            STORE_UNAVAILABLE
    ├── SchemaMissingError               SCHEMA_MISSING
    └── TurnTimeout                      TURN_TIMEOUT

    Interruption (BaseException)
    ├── LeaseLost       the right to run this stage has gone to somebody else
    ├── CancelRequested somebody cancelled the turn
    ├── DeadlinePassed  the turn's deadline passed
    ├── StopAsked       one of these two, found while the outcome was being committed
    ├── HandBackAsked   this process is going away
    └── StoreLost       a store did not answer inside a call of user code

Codes are the stable contract, class names are not [O 11.4]. An `Interruption` is control flow, not a failure: it
derives from `BaseException` so that an intent's `except Exception` cannot swallow it.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import Any, ClassVar, cast

JSONObject = dict[str, Any]


class TurnchainError(Exception):
    """Something that Turnchain was asked to do could not be done."""

    code: ClassVar[str] = "TURNCHAIN"
    category: ClassVar[str] = "unknown"

    def __init__(self, message: str = "", context: JSONObject | None = None) -> None:
        super().__init__(message, context)
        self.message = message or (type(self).__doc__ or "").strip().splitlines()[0]
        self.context: JSONObject = context or {}

    def __str__(self) -> str:
        return self.message


class SupervisorFailedError(TurnchainError):
    """The supervisor of a turn could not go on."""

    code = "SUPERVISOR_FAILED"


class MaxIterationsError(SupervisorFailedError):
    """The supervisor reached its last allowed iteration without END. [O 3.3]"""

    code = "SUPERVISOR_MAX_ITERATIONS"
    category = "max-iterations"


class SupervisorRoutingError(SupervisorFailedError):
    """`route` returned something that names no intent. [O 3.5]"""

    code = "SUPERVISOR_INVALID_ROUTE"
    category = "routing"


class SupervisorCancelledError(SupervisorFailedError):
    """The supervisor stopped because its turn was cancelled. [O 3.9.4]"""

    code = "SUPERVISOR_CANCELLED"
    category = "cancelled"


class SupervisorDriftError(SupervisorFailedError):
    """A snapshot was saved by another definition of the orchestrator. [O 3.15]"""

    code = "SUPERVISOR_DRIFT"
    category = "drift"


class OrchestratorFailedError(TurnchainError):
    """A turn could not be carried out."""

    code = "ORCHESTRATOR_FAILED"


class OrchestratorConfigError(OrchestratorFailedError):
    """A definition or an argument is not usable. [O 1.2]"""

    code = "ORCHESTRATOR_CONFIG"
    category = "validation"


class InvalidInputError(OrchestratorConfigError):
    """An argument of a call is not usable; nothing was written. [O 1.2.15]"""


class UnknownOrchestratorError(OrchestratorConfigError):
    """No orchestrator of this name is known."""


class SettingsError(OrchestratorConfigError):
    """A setting is missing or wrong."""


class OrchestratorDriftError(OrchestratorFailedError):
    """The session was saved by another definition of the orchestrator. [O 2.3]"""

    code = "ORCHESTRATOR_DRIFT"
    category = "drift"


class OrchestratorCancelledError(OrchestratorFailedError):
    """The turn was cancelled. [O 11.9]"""

    code = "ORCHESTRATOR_CANCELLED"
    category = "cancelled"


class SessionOwnerError(OrchestratorFailedError):
    """The session belongs to another tenant or user."""

    code = "SESSION_OWNER"
    category = "auth"


class TurnConflictError(OrchestratorFailedError):
    """The request disagrees with what is already stored."""

    code = "TURN_CONFLICT"
    category = "validation"


class TurnInterruptedError(OrchestratorFailedError):
    """The process that ran this turn in place is gone; `resume()` goes on with it."""

    code = "TURN_INTERRUPTED"


class TurnDeadError(OrchestratorFailedError):
    """The turn lost its worker too often without progress, and was given up."""

    code = "TURN_DEAD"


class DeadlineExceededError(OrchestratorFailedError):
    """The turn's deadline passed before it settled."""

    code = "DEADLINE_EXCEEDED"
    category = "timeout"


class StepInDoubtError(OrchestratorFailedError):
    """A step was cut between its intent and its result, and its policy is to fail."""

    code = "STEP_IN_DOUBT"


class SchemaValidationError(TurnchainError):
    """A value is not JSON, or not of the declared shape. [O 2.8.4]"""

    code = "SCHEMA_VALIDATION_FAILED"
    category = "schema"


class StoreUnavailableError(TurnchainError):
    """A store did not answer, or answered with an error of its own."""

    code = "STORE_UNAVAILABLE"
    category = "provider"


class SchemaMissingError(TurnchainError):
    """The store lacks Turnchain's tables."""

    code = "SCHEMA_MISSING"
    category = "validation"


class TurnTimeout(TurnchainError):
    """The turn did not settle in the time the caller wanted to wait; it goes on."""

    code = "TURN_TIMEOUT"
    category = "timeout"


class Interruption(BaseException):
    """A stage must stop now; the ledger, not this exception, says what becomes of the turn."""


class LeaseLost(Interruption):
    """The right to run this stage has gone to somebody else; abandon it and write nothing more."""


class CancelRequested(Interruption):
    """Somebody cancelled the turn."""


class DeadlinePassed(Interruption):
    """The turn's deadline passed."""


class StopAsked(Interruption):
    """The turn was cancelled, or its deadline passed, before its outcome was committed; nothing was written."""


class HandBackAsked(Interruption):
    """This process is going away; give the turn to another one at this boundary."""


class StoreLost(Interruption):
    """A store did not answer while user code ran. The stage fails with `error`; it is not the user code's own error."""

    def __init__(self, error: TurnchainError) -> None:
        super().__init__(error)
        self.error = error


_SECRET_KEY = re.compile(
    r"authorization|api[-_]?key|cookie|password|passwd|secret|token|session[-_]?key", re.I
)
_SECRET_TEXT = re.compile(
    r"(?i)(bearer\s+)[\w.~+/=-]+|\b(sk|pk|ghp|xox[abp])[-_][\w-]{12,}|(://[^/\s:@]*:)[^/\s]+(?=@)"
)
_NOT_STORABLE = re.compile("[\x00\ud800-\udfff]")
_MAX_CAUSES = 5
_LONGEST_TEXT = 4000
"""Characters: an error is stored beside its turn several times, and says what went wrong, not all that was there."""


def scrub(value: Any) -> Any:
    """Replace what looks like a secret: values under telling keys, tokens and passwords in text. [O 11.8]"""
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return {
            key: "[scrubbed]" if _SECRET_KEY.search(str(key)) else scrub(item)
            for key, item in items
        }
    if isinstance(value, list | tuple):
        return [scrub(item) for item in cast("list[Any]", value)]
    if isinstance(value, str):
        return _SECRET_TEXT.sub(lambda found: f"{found[1] or found[3] or ''}[scrubbed]", value)
    return value


def text_of(error: BaseException) -> str:
    """An exception's text, which may be of any size or, where an author's `__str__` raises, none at all."""
    try:
        text = str(error)
    except Exception as failure:
        return f"(its text cannot be made: {type(failure).__name__})"
    return text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "…"


def to_record(error: BaseException, depth: int = 0) -> JSONObject:
    """The stored form of an error. It keeps message, code, category, context and causes. [O 11.8]

    Shape: `{"type", "code", "category", "message", "context"?, "cause"?}`, causes nested at most five deep. Errors that
    are not ours get code `SUPERVISOR_FAILED`, since only user code raises them.
    """
    own = error if isinstance(error, TurnchainError) else None
    record: JSONObject = {
        "type": type(error).__name__,
        "code": own.code if own else SupervisorFailedError.code,
        "category": own.category if own else "unknown",
        "message": _storable(scrub(text_of(error))),
    }
    if own and own.context:
        record["context"] = _storable(scrub(own.context))
    cause = error.__cause__
    if cause is not None and depth < _MAX_CAUSES:
        record["cause"] = to_record(cause, depth + 1)
    return record


def _storable(value: Any) -> Any:
    """The nearest JSON that every store takes: what went wrong must never be what keeps its turn from settling."""
    if isinstance(value, dict):
        items = cast("dict[Any, Any]", value).items()
        return {_storable(str(key)): _storable(item) for key, item in items}
    if isinstance(value, list | tuple):
        return [_storable(item) for item in cast("list[Any]", value)]
    if value is None or isinstance(value, int) or (isinstance(value, float) and isfinite(value)):
        return value
    text = value if isinstance(value, str) else repr(value)[:200]
    return _NOT_STORABLE.sub("\ufffd", text)


def from_record(record: JSONObject) -> TurnchainError:
    """Rebuild an error from its stored form; a code that this version does not know gives the base class."""
    by_name = {(kind.code, kind.__name__): kind for kind in _tree(TurnchainError)}
    by_code = {kind.code: kind for kind in reversed(list(_tree(TurnchainError)))}
    code = str(record.get("code"))
    kind = by_name.get((code, str(record.get("type")))) or by_code.get(code, TurnchainError)
    error = kind(str(record.get("message", "")), dict(record.get("context") or {}))
    cause = record.get("cause")
    if isinstance(cause, dict):
        error.__cause__ = from_record(cast("JSONObject", cause))
    return error


def _tree(kind: type[TurnchainError]) -> list[type[TurnchainError]]:
    """The classes of this module: those that an author derives have constructors of their own."""
    own = [child for child in kind.__subclasses__() if child.__module__ == __name__]
    return [kind, *(below for child in own for below in _tree(child))]
