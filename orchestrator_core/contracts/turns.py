"""A turn: what was asked, where it stands, and who may move it."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal, NewType, cast

from pydantic import Discriminator, Field, Tag

from turnchain.orchestrator_core.contracts.base import JSON, JSONObject, Record
from turnchain.orchestrator_core.contracts.history import Message, WindowedHistory
from turnchain.orchestrator_core.contracts.sessions import Owner, SessionKey

TurnId = NewType("TurnId", str)
"""A turn's id: 36 characters of a UUID, minted by the producer, so that an accept can be repeated."""


class Stage(StrEnum):
    """Where in the chain a turn stands; `done` is behind the last stage."""

    LOAD = "load"
    DRIFT = "drift"
    LOCK = "lock"
    WINDOW = "window"
    DISPATCH = "dispatch"
    PERSIST = "persist"
    COMPACT = "compact"
    DONE = "done"

    @property
    def order(self) -> int:
        """0 for load to 7 for done."""
        return _ORDER.index(self)

    @property
    def following(self) -> Stage:
        """The next stage; `done` follows `compact`."""
        return _ORDER[self.order + 1]


_ORDER = list(Stage)
STAGES: tuple[Stage, ...] = tuple(_ORDER[:-1])


class TurnStatus(StrEnum):
    """What has become of a turn. Spelling is the wire's; everything but the first three is final. [DESIGN 4]"""

    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    AWAITING_INPUT = "awaiting-input"
    FAILED = "failed"
    CANCELLED = "cancelled"
    MAX_ITERATIONS = "max-iterations"
    BLOCKED = "blocked"
    DEAD = "dead"
    QUARANTINED = "quarantined"
    ABSORBED = "absorbed"
    SUPERSEDED = "superseded"

    @property
    def is_final(self) -> bool:
        """Whether the turn's outcome is decided. Its stage may still have `compact` before it."""
        return self not in (TurnStatus.QUEUED, TurnStatus.RUNNING, TurnStatus.PAUSED)


class Provider(Record):
    """A named callable on the worker that produces history or context there, instead of a literal."""

    kind: Literal["turnchain.provider"] = "turnchain.provider"
    """Tells a stored provider from a literal context that happens to have the same keys."""
    name: str
    arguments: JSONObject = Field(default_factory=dict)


def _context_kind(value: Any) -> str:
    given = (
        cast("dict[str, Any]", value).get("kind")
        if isinstance(value, dict)
        else getattr(value, "kind", None)
    )
    return "provider" if given == "turnchain.provider" else "literal"


Context = Annotated[
    Annotated[JSONObject, Tag("literal")] | Annotated[Provider, Tag("provider")],
    Discriminator(_context_kind),
]


class TurnRequest(Record):
    """One input to one session, validated and complete: what `accept` stores."""

    turn_id: TurnId
    session: SessionKey
    owner: Owner = Owner()
    input: JSON
    state: JSONObject = Field(default_factory=dict)
    """Patch, merged shallowly over the session's state."""
    history: tuple[Message, ...] | Provider = ()
    context: Context = Field(default_factory=dict)
    force: bool = False
    """Go on although the definition drifted."""
    priority: int = 0
    """Lower runs first."""
    expected_turn_index: int | None = None
    idempotency_key: str | None = None
    deadline: datetime | None = None
    runner: Literal["engine", "celery"] = "celery"
    run_id: str | None = None
    """The run to continue; None starts a run named like the turn. Only `resume()` sets it."""


class TurnWork(Record):
    """What the stages have found out so far, handed on in the ledger and deleted when the turn is done."""

    turn_index: int = 0
    head_signature: str | None = None
    """Signature of the checkpoint that the turn builds on; None for a new session."""
    history: tuple[Message, ...] = ()
    """What a history provider produced; a literal history stays in the request."""
    windows: WindowedHistory | None = None
    lock_waits: int = 0
    """How often `lock` has parked this turn behind a compaction."""
    outcome: Outcome | None = None
    """Set by the stage that decided the turn: dispatch, or an earlier one that refused it."""

    @property
    def settled(self) -> TurnWork:
        """What is left to do of a turn whose outcome is committed: `compact` asks how it ended, and no more."""
        outcome = self.outcome and Outcome(status=self.outcome.status, error=self.outcome.error)
        return TurnWork(turn_index=self.turn_index, outcome=outcome)


class Outcome(Record):
    """How a turn ends. Written once."""

    status: TurnStatus
    data: JSON = None
    error: JSONObject | None = None
    """`errors.to_record` form."""
    state: JSONObject | None = None
    """The session's state after the turn; None leaves it as it was, which is what a failed turn does. [O 2.6.2]"""
    last_route: str | list[str] | None = None
    report: JSONObject = Field(default_factory=dict)
    """`TurnReport` in JSON form, without the instants that settling adds."""


class TurnRecord(Record):
    """A turn's row in the ledger: where it stands and who may move it."""

    turn_id: TurnId
    seq: int
    """Order of acceptance over all sessions."""
    session: SessionKey
    owner: Owner
    run_id: str
    runner: Literal["engine", "celery"]
    status: TurnStatus
    stage: Stage
    fence: int
    """Grows whenever the right to run changes hands without the stage advancing."""
    attempts: int
    """Takeovers in a row without progress."""
    takeovers: int
    """Takeovers in all, for operators and tests."""
    lease_owner: str | None
    lease_expires_at: datetime | None
    ready_at: datetime | None
    parked: str | None
    """Why the turn waits without an owner: `compaction`, `no-worker`; None otherwise."""
    turn_index: int | None
    priority: int
    cancel_requested_at: datetime | None
    deadline: datetime | None
    accepted_at: datetime
    admitted_at: datetime | None
    settled_at: datetime | None


class Wake(Record):
    """What a broker message says: this stage of this turn may be ready. Losing or repeating one is harmless."""

    turn_id: TurnId
    stage: Stage
    fence: int


class Claim(Record):
    """The right to run one stage of one turn, as granted by the ledger, with what the stage needs."""

    turn: TurnRecord
    request: TurnRequest
    work: TurnWork
    lease_owner: str
    """Unique to this claim: `process/serial`."""
    late: bool = False
    """Whether the turn's deadline had passed by the store's clock when the claim was granted."""

    @property
    def wake(self) -> Wake:
        """The message that this claim answered, or would answer at the stage to which it was kept."""
        return Wake(turn_id=self.turn.turn_id, stage=self.turn.stage, fence=self.turn.fence)

    def at(self, stage: Stage, work: TurnWork) -> Claim:
        """The same right at a later stage. See `Unit.keep`."""
        moved = {"stage": stage, "attempts": 0}
        if work.outcome is None:
            moved["turn_index"] = work.turn_index
        return self.model_copy(update={"turn": self.turn.model_copy(update=moved), "work": work})


class Refusal(Record):
    """Why a claim was not granted, and what to publish instead."""

    reason: Literal["unknown", "owned", "moved-on", "parked", "done"]
    ahead: Wake | None = None
    """The turn stands ready at a later stage: whoever advanced it may have died before publishing. [DESIGN 5, Claim]"""


class Renewal(Record):
    """What the ledger says of a lease that its owner asked to renew."""

    renewed: bool
    """False: the lease is lost, abandon the stage."""
    cancel_requested: bool = False
    deadline_passed: bool = False


class Acceptance(Record):
    """What `accept` did."""

    turn: TurnRecord
    created: bool
    """False: the same request had been accepted before, and nothing was written."""


class SettledTurn(Record):
    """A turn with a final status and its outcome, as read by whoever waits for it."""

    turn: TurnRecord
    outcome: Outcome


TurnWork.model_rebuild()
