"""What the suites share: the fixture that a driver supplies, and turns brought to where a test begins."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final, Protocol
from uuid import NAMESPACE_OID, uuid5

import pytest

from turnchain.orchestrator_core.contracts import (
    STAGES,
    Acceptance,
    CheckpointRecord,
    Claim,
    Outcome,
    Owner,
    Refusal,
    SessionKey,
    Stage,
    TurnId,
    TurnRecord,
    TurnRequest,
    TurnStatus,
    TurnWork,
    Wake,
)
from turnchain.orchestrator_core.ports import CheckpointStore, Inspection, Ledger, SnapshotStore

LEASE: Final = timedelta(minutes=5)
EXPIRED: Final = timedelta(seconds=-1)
"""A lease that has run out when it is granted: expiry without sleeping, on any server's clock."""
NOW: Final = timedelta(0)
LONG: Final = timedelta(hours=1)
BOT: Final = "bot"


class Stores(Protocol):
    """What a driver's `connect` returns."""

    @property
    def ledger(self) -> Ledger:
        """Sessions, turns and all that changes with them."""
        ...

    @property
    def checkpoints(self) -> CheckpointStore:
        """Settled turns."""
        ...

    @property
    def snapshots(self) -> SnapshotStore:
        """Runs in flight."""
        ...

    @property
    def inspection(self) -> Inspection:
        """What operators read."""
        ...


def id_of(name: str) -> TurnId:
    """The turn id that stands for a short name in these tests."""
    return TurnId(str(uuid5(NAMESPACE_OID, name)))


def session_of(name: str) -> SessionKey:
    """The session of that id."""
    return SessionKey(orchestrator_name=BOT, session_id=name)


def request_of(turn: str, session: str = "s", **fields: Any) -> TurnRequest:
    """What the turn of that short name asks."""
    given: dict[str, Any] = {"input": {"say": turn}, "session": session_of(session), **fields}
    return TurnRequest(turn_id=id_of(turn), **given)


def checkpoint_of(claim: Claim, index: int, **fields: Any) -> CheckpointRecord:
    """The record that the claimed turn would settle with."""
    given: dict[str, Any] = {"state": {"index": index}, **fields}
    return CheckpointRecord(
        orchestrator_name=claim.turn.session.orchestrator_name,
        session_id=claim.turn.session.session_id,
        turn_index=index,
        signature="sig",
        turn_id=claim.turn.turn_id,
        run_id=claim.turn.run_id,
        fence=claim.turn.fence,
        turn_snapshot={"turn": index},
        **given,
    )


ANSWERED: Final = Outcome(status=TurnStatus.AWAITING_INPUT, data={"answer": 42}, state={"n": 1})
FAILED: Final = Outcome(
    status=TurnStatus.FAILED, error={"code": "SUPERVISOR_FAILED", "message": "no"}
)


def stored(outcome: Outcome) -> Outcome:
    """What the ledger keeps of it: the state is the checkpoint's."""
    return outcome.model_copy(update={"state": None})


class Given:
    """Brings turns to where a test begins, through the ports alone."""

    def __init__(self, stores: Stores) -> None:
        self.stores = stores
        self.ledger = stores.ledger
        self._owners = 0

    def accepted(self, turn: str, session: str = "s", **fields: Any) -> Acceptance:
        """A queued turn."""
        return self.ledger.accept(
            request_of(turn, session, **fields), request_hash=f"hash of {turn}"
        )

    def admitted(self, turn: str, session: str = "s", **fields: Any) -> Wake:
        """A turn ready at load."""
        self.accepted(turn, session, **fields)
        wake = self.ledger.admit_turn(id_of(turn))
        assert wake is not None
        return wake

    def claimed(
        self,
        turn: str,
        session: str = "s",
        *,
        stage: Stage = Stage.LOAD,
        lease: timedelta = LEASE,
        **fields: Any,
    ) -> Claim:
        """A turn owned at `stage`, having passed the stages before."""
        wake = self.admitted(turn, session, **fields)
        while wake.stage is not stage:
            wake = self.passed(self.granted(wake))
        return self.granted(wake, lease=lease)

    def ready(self, turn: str, stage: Stage, session: str = "s", **fields: Any) -> Wake:
        """A turn ready at `stage`, for a stage behind load."""
        before = STAGES[stage.order - 1]
        return self.passed(self.claimed(turn, session, stage=before, **fields))

    def settled(
        self, turn: str, session: str = "s", outcome: Outcome = ANSWERED, **fields: Any
    ) -> None:
        """A turn that is done, with its checkpoint if it was answered."""
        claim = self.claimed(turn, session, stage=Stage.PERSIST, **fields)
        self.passed(self.granted(self.persisted(claim, outcome)))

    def granted(self, wake: Wake, *, lease: timedelta = LEASE, process: str = "host:1") -> Claim:
        """The claim of a wake that nobody else answers, by an owner never used before."""
        self._owners += 1
        claim = self.ledger.claim(wake, f"{process}/{self._owners}", lease)
        assert not isinstance(claim, Refusal), claim
        return claim

    def refused(self, wake: Wake) -> Refusal:
        """Why the wake is not granted."""
        refusal = self.ledger.claim(wake, "host:9/1", LEASE)
        assert isinstance(refusal, Refusal)
        return refusal

    def passed(self, claim: Claim, work: TurnWork | None = None) -> Wake:
        """Hand over to the next stage."""
        stage = claim.turn.stage
        if stage is Stage.LOAD and work is None:
            head = self.stores.checkpoints.load(claim.turn.session)
            work = TurnWork(turn_index=head.turn_index + 1 if head else 0)
        with self.ledger.unit(claim, durable=False) as unit:
            unit.hand_over(stage.following, work)
        return Wake(turn_id=claim.turn.turn_id, stage=stage.following, fence=claim.turn.fence)

    def persisted(self, claim: Claim, outcome: Outcome = ANSWERED) -> Wake:
        """Settle a turn that is owned at persist, and hand it over."""
        with self.ledger.unit(claim, durable=True) as unit:
            if outcome.status is TurnStatus.AWAITING_INPUT:
                record = checkpoint_of(claim, claim.work.turn_index)
                self.stores.checkpoints.append(record, unit)
            unit.settle(outcome)
            unit.hand_over(Stage.COMPACT)
        return Wake(turn_id=claim.turn.turn_id, stage=Stage.COMPACT, fence=claim.turn.fence)

    def turn(self, turn: str) -> TurnRecord:
        """The row as it stands."""
        record = self.ledger.get(id_of(turn))
        assert record is not None
        return record

    def outcome(self, turn: str) -> Outcome:
        """The one outcome of a settled turn."""
        (settled,) = self.ledger.settled([id_of(turn)])
        return settled.outcome

    def events(self, turn: str) -> list[str]:
        """The types of the turn's events, in order."""
        return [event.type for event in self.ledger.events(id_of(turn))]


class Exam:
    """The base of all suites."""

    @pytest.fixture
    def stores(self) -> Stores:
        """Empty stores of the driver under examination."""
        raise NotImplementedError("a driver's subclass supplies the fixture `stores`")

    @pytest.fixture
    def ledger(self, stores: Stores) -> Ledger:
        """The ledger under examination."""
        return stores.ledger

    @pytest.fixture
    def given(self, stores: Stores) -> Given:
        """Where tests begin."""
        return Given(stores)


TENANT_A: Final = Owner(tenant="a", user_id="ann")
TENANT_B: Final = Owner(tenant="b", user_id="bob")
