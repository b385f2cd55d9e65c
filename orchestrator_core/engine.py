"""The seven stages in one process, called in place: for tests, notebooks and nested use. [DESIGN 3]"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from turnchain.orchestrator_core.contracts import (
    JSON,
    Claim,
    Message,
    Owner,
    Provider,
    SessionKey,
    Stage,
    TurnId,
    TurnRequest,
    TurnResult,
    Wake,
)
from turnchain.orchestrator_core.environment import Environment
from turnchain.orchestrator_core.errors import (
    CancelRequested,
    DeadlinePassed,
    LeaseLost,
    SessionOwnerError,
    StoreLost,
    StoreUnavailableError,
    TurnchainError,
)
from turnchain.orchestrator_core.ports import Clock, Ledger, Publisher, Watch
from turnchain.orchestrator_core.requests import MISSING, build_request, request_hash
from turnchain.orchestrator_core.results import result_of
from turnchain.orchestrator_core.runner import run_stage
from turnchain.orchestrator_core.stages.drift import drift_error

ENGINE_LEASE = timedelta(minutes=15)
"""How long a dead engine's turn is taken for alive: as long as `dispatch` may run, since nothing
renews inside a call."""

_LOOK = timedelta(seconds=1)


class Engine:
    """Runs turns where it is called. Same stages, same stores and same rows as the workers; no broker.

    A turn whose engine dies ends `failed` with code TURN_INTERRUPTED, and `resume` goes on with it.
    """

    def __init__(self, env: Environment, publisher: Publisher | None = None) -> None:
        self._env = env
        self._publisher = publisher

    def execute(
        self,
        orchestrator_name: str,
        input: JSON = MISSING,
        *,
        session_id: str,
        history: Sequence[Message | Mapping[str, Any]] | Provider | None,
        state: Mapping[str, Any] | None = None,
        context: Mapping[str, Any] | Provider | None = None,
        tenant: str | None = None,
        user_id: str | None = None,
        force: bool = False,
        expected_turn_index: int | None = None,
        deadline: datetime | None = None,
    ) -> TurnResult:
        """Run one turn to its end, behind whatever the session already has waiting.

        Raises:
            UnknownOrchestratorError, InvalidInputError, SessionOwnerError, TurnConflictError: nothing was written.
            StoreUnavailableError: the store did not answer.
        """
        self._env.registry.get(orchestrator_name)
        request = build_request(
            orchestrator_name,
            input,
            turn_id=self._env.new_id(),
            session_id=session_id,
            history=history,
            state=state,
            context=context,
            tenant=tenant,
            user_id=user_id,
            force=force,
            expected_turn_index=expected_turn_index,
            deadline=deadline,
            runner="engine",
        )
        return self._run(request)

    def resume(
        self,
        orchestrator_name: str,
        session_id: str,
        *,
        owner: Owner | None = None,
        force: bool = False,
    ) -> TurnResult | None:
        """Go on with the turn that a dead engine left in this session; None if it left none. [O 4]

        It runs as a new turn on the same run: settled iterations and finished steps are not repeated. A second call
        returns None, since the session's last turn is then another one.

        Raises:
            SessionOwnerError: the session is another owner's.
            OrchestratorDriftError: another definition began it; what it left stays for that one, or for `force`.
        """
        definition = self._env.registry.get(orchestrator_name)
        session = SessionKey(orchestrator_name=orchestrator_name, session_id=session_id)
        self._env.ledger.take_over_expired(self._env.policy.max_attempts, only_engines=True)
        left = self._env.ledger.interrupted(session)
        if left is None:
            return None
        if left.owner != (owner or Owner()):
            raise SessionOwnerError(
                f"session {session_id!r} belongs to another owner: pass the owner it was begun with"
            )
        force = force or left.force
        if not force and definition.on_drift == "error":
            self._refuse_drift(left)
        changes = {
            "turn_id": self._env.new_id(),
            "force": force,
            "expected_turn_index": None,
            # Two that resume at once are one turn: the second finds the first one's, and waits for it.
            "idempotency_key": f"resume:{left.turn_id}",
        }
        return self._run(left.model_copy(update=changes))

    def _refuse_drift(self, left: TurnRequest) -> None:
        """Before the turn is accepted, since one that ends by drift takes the run that it was to go on with along."""
        current = self._env.registry.signatures[left.session.orchestrator_name]
        head = self._env.checkpoints.load(left.session)
        run = self._env.snapshots.load(left.run_id or left.turn_id)
        for saved in (head, run):
            if saved and saved.signature != current:
                raise drift_error(left.session, saved.signature, current)

    def _run(self, request: TurnRequest) -> TurnResult:
        ledger = self._env.ledger
        acceptance = ledger.accept(
            request, request_hash=request_hash(request), known=self._env.registry.names
        )
        turn_id = acceptance.turn.turn_id
        wake = self._admitted(turn_id, request)
        while wake is not None:
            wake = self._step(wake) or self._standing(turn_id)
        return result_of(ledger.settled([turn_id])[0])

    def _admitted(self, turn_id: TurnId, request: TurnRequest) -> Wake | None:
        """Wait for the session's earlier turns. None: the turn ended meanwhile, for example cancelled."""
        ledger = self._env.ledger
        with ledger.listen() as listener:
            while (wake := ledger.admit_turn(turn_id)) is None:
                # There may be nobody who sweeps: a dead engine's turn, or this one's deadline, must end all the same.
                ledger.take_over_expired(self._env.policy.max_attempts, only_engines=True)
                if request.deadline:
                    ledger.expire_deadlines()
                if ledger.settled([turn_id]):
                    return None
                listener.wait(_LOOK)
        return wake

    def _step(self, wake: Wake) -> Wake | None:
        try:
            passage = run_stage(wake, self._env)
        except BaseException as error:
            process_id = self._env.leases.process_id
            self._env.ledger.take_over(
                wake,
                process_id=process_id,
                max_attempts=self._env.policy.max_attempts,
                exactly=True,
            )
            if wake.stage is Stage.COMPACT and isinstance(error, TurnchainError):
                return None  # the answer is out since `persist`: what failed is upkeep [O 2.10]
            raise
        others = [other for other in passage.others if other.turn_id != wake.turn_id]
        if self._publisher and others:
            self._publisher.publish(others)
        return passage.following

    def _standing(self, turn_id: TurnId) -> Wake | None:
        """Where a turn stands that no stage of ours handed on: parked, or with a faster worker. None: at its end.

        A parked turn's wake is refused until its wait is over, so asking again and again is all that it takes.
        """
        ledger = self._env.ledger
        if ledger.settled([turn_id]):
            return None
        with ledger.listen() as listener:
            listener.wait(_LOOK)
        turn = ledger.get(turn_id)
        return Wake(turn_id=turn_id, stage=turn.stage, fence=turn.fence) if turn else None


class InPlaceLeases:
    """The leases of an engine: renewed at boundaries, by the thread that runs the turn."""

    def __init__(self, ledger: Ledger, clock: Clock, process_id: str) -> None:
        self._ledger = ledger
        self._clock = clock
        self._process_id = process_id
        self._serial = 0

    @property
    def process_id(self) -> str:
        """`host:family:pid`, with which every owner begins."""
        return self._process_id

    def new_owner(self) -> str:
        """A lease owner never used before."""
        self._serial += 1
        return f"{self._process_id}/{self._serial}"

    def begin(self, claim: Claim, granted: timedelta) -> Watch:
        """A watch that asks the ledger itself."""
        return _InPlaceWatch(self._ledger, self._clock, claim)

    def go_on(self, claim: Claim) -> None:
        """There is no limit beside the lease's own length."""

    def end(self, claim: Claim) -> None:
        """Nothing runs beside the claim, so nothing is to be stopped."""


class _InPlaceWatch:
    def __init__(self, ledger: Ledger, clock: Clock, claim: Claim) -> None:
        self._ledger = ledger
        self._clock = clock
        self._claim = claim
        self._asked = clock.elapsed()

    def check(self) -> None:
        try:
            renewal = self._ledger.renew([self._claim], ENGINE_LEASE)[0]
        except StoreUnavailableError as error:
            # Asked before a call of user code, it would be taken for the call's own.
            raise StoreLost(error) from error
        self._asked = self._clock.elapsed()
        if not renewal.renewed:
            raise LeaseLost
        if renewal.cancel_requested:
            raise CancelRequested
        if renewal.deadline_passed:
            raise DeadlinePassed

    def check_call(self) -> None:
        if self._clock.elapsed() - self._asked > _LOOK:
            self.check()
