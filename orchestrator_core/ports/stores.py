"""What the core needs stored. A driver is certified by the suites in `turnchain.stores.conformance`.

Time is the store's: leases, order and instants use its clock, never the caller's. Durations are arguments. [O 15.2 G27]
Returned values are copies; changing one changes nothing stored. [O 15.2 G24]
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, Final, Literal, Protocol

from turnchain.orchestrator_core.contracts import (
    JSON,
    Acceptance,
    CheckpointRecord,
    Claim,
    IterationSnapshot,
    NewEvent,
    Outcome,
    Owner,
    ProcessRecord,
    Refusal,
    Renewal,
    SessionKey,
    SettledTurn,
    Stage,
    StepRecord,
    SupervisorRun,
    TurnEvent,
    TurnId,
    TurnRecord,
    TurnRequest,
    TurnWork,
    Wake,
)

CancelReceipt = Literal["cancelled", "requested", "too-late", "unknown"]
"""`cancelled`: ended at once; `requested`: its owner stops at the next boundary; `too-late`: its outcome is being
committed or is; `unknown`: no such turn of this owner."""


ENGINE_SILENCE: Final = timedelta(minutes=1)
"""An engine that waits asks every second; one silent for so long is gone."""


class Unit(Protocol):
    """One transaction under one claim. Nothing is written before the `with` block ends, then all or nothing."""

    @property
    def claim(self) -> Claim:
        """The claim whose fence, stage and owner every write of this unit carries."""
        ...

    def add_events(self, events: Sequence[NewEvent]) -> None:
        """Append events, numbered on from the turn's last."""
        ...

    def mark_progress(self) -> None:
        """Reset the attempts: an iteration settled. [DESIGN 6, Attempts]"""
        ...

    def settle(self, outcome: Outcome, *, unless_stopped: bool = False) -> None:
        """Set the final status and write the outcome (without its `state`) and the terminal event; tell waiters.

        For a status of `awaiting-input` the session's head moves to this turn's index. `unless_stopped` refuses the
        unit as a whole, with `StopAsked`, where the turn was cancelled or its deadline has passed: for an outcome that
        is committed without `persist` having been claimed, which is where a stop is looked for otherwise.
        """
        ...

    def hand_over(self, stage: Stage, work: TurnWork | None = None) -> None:
        """Move the turn to `stage`, ready and without an owner; with `done`, delete what was request-scoped.

        Resets attempts. `work` replaces the stored one.
        """
        ...

    def keep(self, stage: Stage, work: TurnWork) -> None:
        """Move the turn on to `stage` and keep it: the claim goes on there, as `Claim.at`. Otherwise as `hand_over`.

        A unit may move the turn several times, over stages whose hand-over was put off; the last one counts.
        """
        ...


class Listener(Protocol):
    """Hears of settled turns. May miss some: whoever waits also asks now and then."""

    def wait(self, timeout: timedelta) -> frozenset[TurnId]:
        """Ids heard of since the last call, or an empty set after `timeout`."""
        ...


class Ledger(Protocol):
    """Sessions, turns, leases, steps, events and processes: whatever must change in one transaction.

    Every verb is one transaction. Calling any of them twice is safe; calling one too late changes nothing.

    Raises (every verb):
        StoreUnavailableError: the server did not answer, or not in time. The write may or may not have happened.
        SchemaMissingError: the tables are not there.
    """

    # -- what producers do

    def accept(
        self,
        request: TurnRequest,
        *,
        request_hash: str,
        known: Sequence[str] | None = None,
        connection: Any = None,
    ) -> Acceptance:
        """Store the turn as `queued`. On the caller's `connection` if given, and then inside its open transaction.

        Takes no lock that another accept, admit or stage would wait for. Idempotent by turn id, and by
        (session, idempotency key) with the same `request_hash`.

        `known` names the orchestrators of the caller's registry; None asks the names that live or past processes have
        announced (`beat`), and lets everything pass while there are none.

        Raises:
            UnknownOrchestratorError: the name is not among the known ones (the message lists them).
            SessionOwnerError: the session, or an earlier turn of it, belongs to another owner.
            TurnConflictError: the turn id or idempotency key was used for a different request, or
                `expected_turn_index` is not the index the session's next turn would get.
        """
        ...

    def request_cancel(self, turn_id: TurnId, owner: Owner) -> CancelReceipt:
        """End the turn at once where nobody owns it and nothing ran, else ask its owner to stop. Before persist only.

        A running turn without an owner (ready or parked) is left to its next claim, which sees the request; a parked
        one is made ready for that.
        """
        ...

    def get(self, turn_id: TurnId, owner: Owner | None = None) -> TurnRecord | None:
        """The turn's row; None if there is none, or it is not this owner's. None as owner asks as an operator."""
        ...

    def settled(self, turn_ids: Iterable[TurnId]) -> list[SettledTurn]:
        """Those of the turns that have an outcome."""
        ...

    def events(self, turn_id: TurnId, *, after: int = 0, limit: int = 500) -> list[TurnEvent]:
        """The turn's events with `seq > after`, in order."""
        ...

    def listen(self) -> AbstractContextManager[Listener]:
        """Hear of settled turns while the block is open."""
        ...

    # -- what moves a turn

    def admit(self, max_in_flight: int | None = None) -> list[Wake]:
        """Set queued turns running and ready, while owned + ready turns are fewer than the capacity.

        Capacity is `max_in_flight`, else the slots of processes whose heartbeat is fresh and that do not drain, at
        least 1. Order: priority, then the tenant with fewest in flight, then seq; never a session that has a running or
        paused turn; only turns with runner `celery`.
        """
        ...

    def admit_turn(self, turn_id: TurnId) -> Wake | None:
        """Admit this very turn if it is its session's next; for the engine, which is its own capacity.

        Asking is the engine's sign of life: see `take_over_expired`.
        """
        ...

    def claim(self, wake: Wake, lease_owner: str, lease: timedelta) -> Claim | Refusal:
        """Take the right to run the stage. Granted only if stage and fence match and nobody owns the turn.

        A parked turn (ready later, or never until told) is not granted.
        """
        ...

    def unit(self, claim: Claim, *, durable: bool) -> AbstractContextManager[Unit]:
        """One transaction of writes, refused as a whole unless turn, stage, fence and owner still match.

        `durable=False` lets a server crash lose the commit: for what only repeats a pure stage. [DESIGN 4]

        Raises:
            LeaseLost: somebody else has, or may get, the right to run this stage; nothing was written.
            StopAsked: see `Unit.settle`; nothing was written.
            TurnConflictError: a checkpoint of another turn already stands at this index; nothing was written.
        """
        ...

    def park(
        self, claim: Claim, *, reason: str, wait: timedelta | None, stage: Stage, work: TurnWork
    ) -> None:
        """Give the turn up without an owner, to be ready at `stage` after `wait` (None: when told). Fence + 1.

        Raises:
            LeaseLost: as `unit`.
        """
        ...

    def hand_back(self, claim: Claim) -> Wake | None:
        """Give the turn up, ready at once for another process: fence + 1, no attempt. None if the lease is lost.

        Guarded by fence and owner alone, as `renew` is: the claim's stage may have moved on meanwhile. See `Unit.keep`.
        """
        ...

    def take_over(
        self, wake: Wake, *, process_id: str, max_attempts: int, exactly: bool = False
    ) -> Wake | None:
        """A process says that its child, `process_id`, died while it ran this. Counts as an expiry, without the wait.

        None, and nothing changed, unless a claim of that very process owns the turn under this fence: at the stage of
        the wake, or at a later one to which the claim was kept. `exactly` rules the latter out: for a process
        that keeps nothing, and whose other threads may have claimed the later stage.
        """
        ...

    def renew(self, claims: Sequence[Claim], lease: timedelta) -> list[Renewal]:
        """Renew the leases of these claims, all in one statement; one answer each, in order."""
        ...

    def begin_step(self, claim: Claim, run_id: str, effect_key: str, name: str) -> StepRecord:
        """Write the step's intent, durably, or return what an earlier attempt wrote.

        Raises:
            LeaseLost: as `unit`.
        """
        ...

    def finish_step(self, claim: Claim, run_id: str, effect_key: str, result: JSON) -> None:
        """Write the step's result, durably, and reset the attempts.

        Raises:
            LeaseLost: as `unit`.
        """
        ...

    def interrupted(self, session: SessionKey) -> TurnRequest | None:
        """The request of the session's last settled turn if that is an engine's, failed as interrupted.

        Its `run_id` is set, so that accepting it under a new turn id goes on with the run.
        """
        ...

    def lock_wait(self, session: SessionKey) -> timedelta | None:
        """How long the session's compaction lock is held at most from now; None while it is free."""
        ...

    # -- what the sweep and the processes do

    def beat(self, process: ProcessRecord) -> None:
        """Write the process's heartbeat row, and announce the orchestrators it serves."""
        ...

    def forget(self, process_id: str) -> None:
        """Remove the process's heartbeat row: it is going away, its slots no longer count."""
        ...

    def begin_sweep(self, interval: timedelta, lease: timedelta) -> bool:
        """Whether this caller is to sweep now: true for one caller per interval over all processes.

        After a restart of the database or a step of its clock (backward, or a gap longer than `lease`), every owned
        turn first gets a whole lease of grace, so that owners renew before anybody takes over.
        """
        ...

    def take_over_expired(
        self,
        max_attempts: int,
        limit: int = 100,
        *,
        silence: timedelta = ENGINE_SILENCE,
        only_engines: bool = False,
    ) -> list[Wake]:
        """Take each owned turn whose lease expired: fence + 1, attempts + 1, ready. Each in its own transaction.

        Instead: `dead` once attempts would reach `max_attempts`; a turn of a dead engine fails as interrupted; a turn
        inside `compact` that used up its attempts is done, with the event `orchestrator.compaction.failed`.

        An engine's turn without an owner, queued or ready, is its engine's alone: it fails as interrupted once the
        engine has neither asked (`admit_turn`) nor moved it for `silence`. `only_engines` leaves all others alone: for
        an engine, which could not publish them.
        """
        ...

    def rewake(self, first: timedelta, longest: timedelta, limit: int = 500) -> list[Wake]:
        """Ready `celery` turns that nobody claimed for `first`, doubling each time up to `longest`: publish them again.

        Parked turns whose wait is over become ready and are among them. No fence changes, no attempt counts.
        """
        ...

    def expire_deadlines(self, limit: int = 100) -> list[TurnId]:
        """End turns past their deadline that nobody owns: `failed`, DEADLINE_EXCEEDED."""
        ...


class CheckpointStore(Protocol):
    """One append-only record a settled turn. [O 10.1]"""

    def append(self, record: CheckpointRecord, unit: Unit) -> None:
        """Add the record under the unit's fence, in its transaction where the store shares one with the ledger.

        The same turn writing the same index again is success and changes nothing.

        Raises:
            TurnConflictError: another turn's record stands at this index. Raised when the unit ends.
        """
        ...

    def load(self, session: SessionKey) -> CheckpointRecord | None:
        """The record with the highest turn index."""
        ...

    def load_range(self, session: SessionKey, *, first: int, last: int) -> list[CheckpointRecord]:
        """The records with `first <= turn_index <= last`, oldest first."""
        ...

    def list(self, orchestrator_name: str, prefix: str = "") -> list[str]:
        """Distinct session ids in code-point order; `prefix` is literal."""
        ...

    def prune(self, session: SessionKey, *, keep_before: int) -> None:
        """Delete records with a lower index than `keep_before`; the head always stays. [O 0.3 X4]"""
        ...

    def delete(self, session: SessionKey) -> None:
        """Delete all records of the session."""
        ...

    def schema(self) -> str:
        """The DDL to apply; empty where there is none. Nothing is ever applied by itself."""
        ...


class SnapshotStore(Protocol):
    """The run in flight: a head row and one row an iteration. [O 10.6, O 15.2 G25]"""

    def load(self, run_id: str) -> SupervisorRun | None:
        """The run with its settled iterations, in order."""
        ...

    def save(self, run: SupervisorRun, settled: IterationSnapshot | None, unit: Unit) -> None:
        """Write the head row, and `settled` as a new iteration row, under the unit's fence.

        An iteration once written is never changed. Saving the same again is safe.
        """
        ...

    def delete(self, run_id: str, unit: Unit) -> None:
        """Delete the run and its iterations."""
        ...

    def list(self, prefix: str = "") -> list[str]:
        """Run ids in code-point order; `prefix` is literal."""
        ...

    def schema(self) -> str:
        """As `CheckpointStore.schema`."""
        ...
