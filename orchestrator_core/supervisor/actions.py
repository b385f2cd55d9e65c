"""What the machine may ask for, and what it is told of the result. Both sets are closed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from turnchain.orchestrator_core.contracts import JSON, JSONObject, Usage, Verdict


@dataclass(frozen=True, slots=True)
class CallRoute:
    """Ask `route` which intent comes next."""


@dataclass(frozen=True, slots=True)
class CallIntent:
    """Dispatch this intent."""

    intent: str


@dataclass(frozen=True, slots=True)
class CallEvaluate:
    """Ask `evaluate` about the iteration whose branch has settled."""


@dataclass(frozen=True, slots=True)
class CallNext:
    """Ask the dispatched intent's `next` where to go."""

    intent: str


@dataclass(frozen=True, slots=True)
class Finish:
    """The run is over; its outcome is decided."""


@dataclass(frozen=True, slots=True)
class Routed:
    """What `route` returned, as it is."""

    returned: Any


@dataclass(frozen=True, slots=True)
class IntentReturned:
    """How the intent ended."""

    output: JSON = None
    merges: JSONObject | None = None
    """The slice to merge into the state; None for agents, errors and void returns."""
    error: JSONObject | None = None
    usage: Usage = field(default_factory=Usage)
    duration: float = 0.0


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What `evaluate` said; None is no opinion."""

    verdict: Verdict | None


@dataclass(frozen=True, slots=True)
class NextGiven:
    """What `next` returned, as it is; None abstains."""

    returned: Any


@dataclass(frozen=True, slots=True)
class Raised:
    """A callback other than an intent raised; the run fails with this error."""

    error: JSONObject


Action = CallRoute | CallIntent | CallEvaluate | CallNext | Finish
ActionResult = Routed | IntentReturned | Evaluated | NextGiven | Raised
