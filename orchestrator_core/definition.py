"""What an author writes: an orchestrator, as a value that any process may import. [O 1]"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from turnchain.orchestrator_core.callbacks import (
    END,
    Agent,
    Evaluate,
    Migrate,
    Next,
    ProviderFunction,
    Route,
    Run,
)
from turnchain.orchestrator_core.contracts import JSONObject, Message, checked_json
from turnchain.orchestrator_core.errors import (
    InvalidInputError,
    OrchestratorConfigError,
    SupervisorFailedError,
)

Slicer = Callable[[Sequence[Message]], Sequence[Message]]

DEFAULT_MAX_ITERATIONS = 10
NAME_LIMIT = 200
"""Characters of a name or id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """One thing a turn can do: a callable (`run`) or an agent, with what surrounds it."""

    run: Run | None = None
    agent: Agent | None = None
    description: str = ""
    next: Next | None = None

    def __post_init__(self) -> None:
        given = [key for key in ("run", "agent") if getattr(self, key) is not None]
        if len(given) != 1:
            raise SupervisorFailedError(
                f"an intent has exactly one of run and agent, and this has {given or 'neither'}: split it in two",
                {"authoring": True, "given": given},
            )
        if self.run is not None and not callable(self.run):
            raise SupervisorFailedError(f"run = {self.run!r} cannot be called: pass a function")
        if self.agent is not None and not isinstance(self.agent, Agent):
            raise SupervisorFailedError(
                f"agent = {self.agent!r} has no name and execute(): pass an agent"
            )
        if self.next is not None and not callable(self.next):
            raise SupervisorFailedError(
                f"next = {self.next!r} cannot be called: pass a function, such as lambda ctx: END"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryWindow:
    """How many of the last messages each role sees, or a function that chooses them. 0 and below: none. [O 6.2]"""

    router: int | Slicer = 5
    agents: int | Slicer = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Orchestrator:
    """A named definition of how turns of a session are answered. Every mistake in it is found at construction.

        support = Orchestrator(
            name="refund-support",
            intents={"classify": classify, "answer": Intent(run=answer, next=lambda ctx: END)},
            route=lambda ctx: "classify" if ctx.iteration == 0 else "answer",
            iterate=True,
        )

    Raises:
        OrchestratorConfigError: names the field, its value and what it may be. [O 1.2]
    """

    name: str
    intents: Mapping[str, Intent | Agent | Run]
    route: Route
    """Chooses the intent of an iteration, or END. Sync or async."""
    version: str | None = None
    """A tag for reports. Not part of the signature. [O 6.3.6]"""
    state: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What a brand-new session starts with."""
    evaluate: Evaluate | None = None
    iterate: bool = False
    """False: one dispatch a turn, END or not. True: go on until END, a satisfied `evaluate`, or `max_iterations`."""
    max_iterations: int | None = None
    """At least 1; 10 where it is not given. Only used with `iterate`."""
    initial_agent: str | None = None
    """Dispatched first on the session's first turn, without asking `route`. [DESIGN 7]"""
    history_window: HistoryWindow = HistoryWindow()
    keep_snapshots: int | Literal["all"] = 100
    """How many settled turns of a session are kept."""
    on_drift: Literal["error", "accept"] | Migrate = "error"
    """What to do with a session that another definition saved: refuse, go on, or migrate its state by this function."""
    providers: Mapping[str, ProviderFunction] = field(default_factory=dict[str, ProviderFunction])
    """Callables that a request may name as source of its history or context; they run on the worker."""

    def __post_init__(self) -> None:
        _require(
            isinstance(self.name, str) and self.name.strip() != "" and len(self.name) <= NAME_LIMIT,
            "name",
            self.name,
            f"a text of 1 to {NAME_LIMIT} characters",
        )
        _require(
            isinstance(self.intents, Mapping) and bool(self.intents),
            "intents",
            self.intents,
            "one or more intents",
        )
        for key, value in self.intents.items():
            _require(
                isinstance(key, str) and key not in ("", END),
                "intents",
                key,
                "keyed by texts other than '' and END",
            )
            try:
                as_intent(value)
            except SupervisorFailedError as error:
                raise OrchestratorConfigError(
                    f"intents[{key!r}]: {error}",
                    {"authoring": True, "intent": key, "code": error.code},
                ) from error
        _require(callable(self.route), "route", self.route, "a function of RouteContext")
        _require(
            self.version is None or isinstance(self.version, str),
            "version",
            self.version,
            "a text or None",
        )
        _require(
            self.evaluate is None or callable(self.evaluate),
            "evaluate",
            self.evaluate,
            "a function or None",
        )
        _require(isinstance(self.iterate, bool), "iterate", self.iterate, "True or False")
        _require(
            self.max_iterations is None
            or (_is_int(self.max_iterations) and self.max_iterations >= 1),
            "max_iterations",
            self.max_iterations,
            "an int of at least 1",
        )
        _require(
            self.initial_agent is None or self.initial_agent in self.intents,
            "initial_agent",
            self.initial_agent,
            f"one of {sorted(self.intents)}",
        )
        window = self.history_window
        _require(
            isinstance(window, HistoryWindow), "history_window", window, "a HistoryWindow(...)"
        )
        for role in ("router", "agents"):
            window = getattr(self.history_window, role)
            _require(
                _is_int(window) or callable(window),
                f"history_window.{role}",
                window,
                "an int or a function",
            )
        keep = self.keep_snapshots
        _require(
            keep == "all" or (_is_int(keep) and keep >= 1),
            "keep_snapshots",
            keep,
            "'all' or an int of at least 1",
        )
        on_drift = self.on_drift
        _require(
            on_drift in ("error", "accept") or callable(on_drift),
            "on_drift",
            on_drift,
            "'error', 'accept' or a function",
        )
        _require(
            isinstance(self.providers, Mapping), "providers", self.providers, "functions by name"
        )
        for name, provider in self.providers.items():
            _require(
                callable(provider),
                f"providers[{name!r}]",
                provider,
                "a function of ProviderContext",
            )
        _require(isinstance(self.state, Mapping), "state", self.state, "a JSON object")
        try:
            checked_json("state", dict(self.state))
        except InvalidInputError as error:
            raise OrchestratorConfigError(
                str(error), {"authoring": True, **error.context}
            ) from error

    @property
    def iteration_limit(self) -> int:
        """How many iterations one turn may run."""
        return (self.max_iterations or DEFAULT_MAX_ITERATIONS) if self.iterate else 1

    def intent(self, key: str) -> Intent:
        """The intent under this key, in its full form."""
        return as_intent(self.intents[key])

    def initial_state(self) -> JSONObject:
        """A fresh copy of what a new session starts with."""
        return checked_json("state", dict(self.state))


def as_intent(value: Intent | Agent | Run) -> Intent:
    """The full form of an entry: an `Intent` as it is, an agent or a callable wrapped. [O 3.1]

    Raises:
        SupervisorFailedError: it is none of these.
    """
    if isinstance(value, Intent):
        return value
    if isinstance(value, Agent):
        return Intent(agent=value, description=str(getattr(value, "description", None) or ""))
    if callable(value):
        return Intent(run=value)
    raise SupervisorFailedError(
        f"{value!r} is neither a function, an agent (name and execute()) nor an Intent",
        {"authoring": True},
    )


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _require(holds: bool, field: str, value: object, wanted: str) -> None:
    if not holds:
        raise OrchestratorConfigError(
            f"{field} = {value!r} is not usable: it must be {wanted}",
            {"authoring": True, "field": field, "value": repr(value)[:200]},
        )
