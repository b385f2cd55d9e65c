"""What an author's callables receive and may return.

Everything in a context is a copy: changing it reaches neither siblings nor what is stored. [O 15.4 G38]
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from turnchain.orchestrator_core.contracts import (
    JSON,
    BranchRecord,
    IterationSnapshot,
    JSONObject,
    Message,
    SessionKey,
    Usage,
    Verdict,
)

END: Final = "__turnchain:end__"
"""Returned by `route` or `next`: the turn is over. A string, so that it survives JSON; no intent may have it as key."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """What every callable of a turn sees. [O 3.12]"""

    session: SessionKey
    turn_index: int
    run_id: str
    iteration: int
    """From 0 within the turn."""
    input: JSON
    state: JSONObject
    iterations: Sequence[IterationSnapshot]
    """The settled ones, oldest first."""
    history: Sequence[Message]
    context: Mapping[str, Any]
    """What the caller sent, or what the context provider made in this process."""

    @property
    def session_id(self) -> str:
        """The id the caller gave the session."""
        return self.session.session_id


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteContext(CallContext):
    """Given to `route`. `history` is the router's slice. [DESIGN 7]"""

    feedback: str | None
    """What `evaluate` said of the iteration before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluateContext(CallContext):
    """Given to `evaluate`, after the merge."""

    result: Mapping[str, BranchRecord]


@dataclass(frozen=True, slots=True)
class Step:
    """Given to a step's function."""

    effect_key: str
    """The same for every attempt: pass it on as idempotency key of what the step calls."""
    in_doubt: bool
    """Whether an earlier attempt was cut between its intent and its result."""


@dataclass(frozen=True, slots=True)
class Found:
    """Returned by a `Reconcile` function: the effect had happened, with this result."""

    result: JSON


@dataclass(frozen=True, slots=True)
class Reconcile:
    """Step policy: ask `look_up(step)` what became of a step in doubt: `Found(result)`, or None for "never"."""

    look_up: Callable[[Step], Found | Awaitable[Found | None] | None]


class Journal(Protocol):
    """Runs side effects at most once where their result was recorded, whatever crashes in between."""

    def step(self, name: str, fn: Callable[[Step], Any], *, policy: Any = "retry") -> JSON:
        """See `IntentContext.step`."""
        ...

    async def astep(self, name: str, fn: Callable[[Step], Any], *, policy: Any = "retry") -> JSON:
        """See `IntentContext.step`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class IntentContext(CallContext):
    """Given to an intent. `history` is the agents' slice."""

    intent: str
    """The intent's own key."""
    attempt: int
    """0, or how often in a row the turn was taken over before this."""
    journal: Journal

    def step(self, name: str, fn: Callable[[Step], T], *, policy: Any = "retry") -> T:
        """Run a side effect once: its result is journaled, and a later attempt gets that instead of a second run.

        Shape: `fn` takes a `Step` and returns JSON. Name steps uniquely within an intent; the nth of a name is told
        apart by n, so call them in the same order in every attempt.

        `policy` says what to do with a step in doubt, one that was cut between its intent and its result: `"retry"`
        runs it again under the same `effect_key` (at least once, the default), `"fail"` raises, `Reconcile(look_up)`
        asks first. [DESIGN 6, Steps]

        Raises:
            StepInDoubtError: the step is in doubt and the policy is `"fail"`.
            SchemaValidationError: the result is not JSON.
        """
        return self.journal.step(name, fn, policy=policy)

    async def astep(
        self, name: str, fn: Callable[[Step], Awaitable[T] | T], *, policy: Any = "retry"
    ) -> T:
        """`step` for async intents; `fn` may be async."""
        return await self.journal.astep(name, fn, policy=policy)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentResult:
    """What an agent's `execute` returns. `data` wins over `text`; an `error` is the branch's error."""

    text: str | None = None
    data: JSON = None
    usage: Usage = field(default_factory=Usage)
    error: BaseException | None = None


@runtime_checkable
class Agent(Protocol):
    """A unit that answers text, for example a model with tools. Its output is recorded, not merged. [O 3.7.10]"""

    @property
    def name(self) -> str:
        """Part of the signature."""
        ...

    def execute(
        self, input: str, *, history: Sequence[Message], context: Mapping[str, Any]
    ) -> AgentResult | Awaitable[AgentResult]:
        """Answer. `input` is the turn's input, compact JSON if it is not text."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderContext:
    """Given to a history or context provider. It may run again in a later attempt."""

    session: SessionKey
    tenant: str | None
    user_id: str | None
    input: JSON
    arguments: JSONObject


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftContext:
    """Given to an `on_drift` function: it returns the session's state as the present definition wants it."""

    session: SessionKey
    saved_signature: str
    state: JSONObject


Route = Callable[[RouteContext], "str | Awaitable[str]"]
Evaluate = Callable[[EvaluateContext], "Verdict | Awaitable[Verdict | None] | None"]
Run = Callable[[IntentContext], Any]
"""Its return, a JSON object, is merged into the state; None merges nothing. [O 3.7.10]"""
Next = Callable[[IntentContext], "str | None"]
"""Where to go after this intent; None leaves it to `route`. Sync. [O 3.11]"""
ProviderFunction = Callable[[ProviderContext], Any]
Migrate = Callable[[DriftContext], JSONObject]
