"""One stage of one turn: claim it, run it, hand it over. The tasks and the engine both come through here. [DESIGN 5]"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from turnchain.orchestrator_core.contracts import (
    Claim,
    Outcome,
    Refusal,
    Stage,
    TurnRecord,
    TurnStatus,
    Wake,
)
from turnchain.orchestrator_core.environment import Environment
from turnchain.orchestrator_core.errors import (
    CancelRequested,
    DeadlinePassed,
    HandBackAsked,
    LeaseLost,
    SessionOwnerError,
    StopAsked,
    StoreLost,
    TurnConflictError,
    to_record,
)
from turnchain.orchestrator_core.ports import Unit, Watch
from turnchain.orchestrator_core.refusals import cancelled, deadline_exceeded
from turnchain.orchestrator_core.stages import BY_STAGE
from turnchain.orchestrator_core.turn_context import Park, TurnContext, nowhere


@dataclass(frozen=True, slots=True)
class Passage:
    """What came of a wake: what this turn needs next, and which other turns became ready."""

    following: Wake | None = None
    """The turn's next stage, ready. None: nothing of this turn is to be run from here."""
    others: tuple[Wake, ...] = ()
    """Wakes to publish."""
    refusal: Refusal | None = None
    """Why nothing was run, or, of a turn that was claimed, why what was run came to nothing."""
    turn: TurnRecord | None = None
    """The turn as its claim found it; None: nothing was claimed."""
    park: Park | None = None
    """What the turn waits for now, without an owner."""
    handed_back: bool = False
    """Whether this process gave the turn up for another one."""
    status: TurnStatus | None = None
    """What the turn ends as, once that is decided."""
    held: TurnContext | None = field(default=None, repr=False)
    """The turn, still owned by this process, before the stage of `following`."""


def run_stage(
    wake: Wake,
    env: Environment,
    *,
    held: TurnContext | None = None,
    goes_on: Callable[[Stage], bool] = nowhere,
) -> Passage:
    """Run the stage that the wake names, if it is still to be run and nobody else does.

    Safe to call any number of times with the same wake, from any number of processes at once: one of them gets the
    claim. What a lost lease leaves undone belongs to whoever has it now.

    `goes_on` says which stages the caller runs in place. Before one of them the turn is not handed over but kept, and
    comes back as `Passage.held`: the caller then runs that stage with it at once, or calls `let_go`.

    Raises:
        StoreUnavailableError: the ledger did not answer; the turn stays where it is, for the sweep.
    """
    if held is None:
        granted = env.clock.elapsed()
        claim = env.ledger.claim(wake, env.leases.new_owner(), env.policy.lease)
        if isinstance(claim, Refusal):
            return Passage(others=(claim.ahead,) if claim.ahead else (), refusal=claim)
        watch = env.leases.begin(claim, granted)
    else:
        claim, watch = held.claim, held.watch
        env.leases.go_on(claim)
    kept = False
    try:
        turn = held or _turn(claim, watch, goes_on, env)
        passage = _not_served(claim, env) if turn is None else _through(turn, env)
        kept = passage.held is not None
        return passage
    except LeaseLost:
        return _lost(claim)
    except HandBackAsked:
        ready = env.ledger.hand_back(claim)
        if ready is None:
            return _lost(claim)
        return Passage(others=(ready,), turn=claim.turn, handed_back=True)
    except StoreLost as lost:
        raise lost.error from lost.error.__cause__
    finally:
        if not kept:
            env.leases.end(claim)


def let_go(held: TurnContext, env: Environment) -> None:
    """Stop renewing the lease of a turn whose next stage was not run after all: it is the sweep's then."""
    env.leases.end(held.claim)


def _turn(
    claim: Claim, watch: Watch, goes_on: Callable[[Stage], bool], env: Environment
) -> TurnContext | None:
    """What the claimed stage is given; None: this process has no definition of that name."""
    definition = env.registry.find(claim.turn.session.orchestrator_name)
    if definition is None:
        return None
    return TurnContext(
        claim=claim,
        definition=definition,
        signature=env.registry.signatures[definition.name],
        watch=watch,
        work=claim.work,
        goes_on=goes_on,
    )


def _lost(claim: Claim) -> Passage:
    return Passage(refusal=Refusal(reason="moved-on"), turn=claim.turn)


def _through(turn: TurnContext, env: Environment) -> Passage:
    """Run the claimed stage, and move the turn on."""
    try:
        result = _run(turn, env)
        if isinstance(result, Park):
            return _parked(turn, result, env)
        turn = result
        return _moved_on(turn, env)
    except StopAsked:
        return _put_before_persist(turn, env)
    except (SessionOwnerError, TurnConflictError) as error:
        turn = _refused(turn, error)
    try:
        return _moved_on(turn, env)
    except StopAsked:
        return _put_before_persist(turn, env)


def _refused(turn: TurnContext, error: SessionOwnerError | TurnConflictError) -> TurnContext:
    """What the turn found is no longer so: another owner's session, another turn's index. It ends, with that."""
    refused = Outcome(status=TurnStatus.FAILED, error=to_record(error))
    turn = replace(turn, events=()).decided(refused)
    # What was put off would be refused again where it begins the session.
    return turn.beginning_anew() if isinstance(error, SessionOwnerError) else turn


def _moved_on(turn: TurnContext, env: Environment) -> Passage:
    """Commit the stage with the hand-over; or put both off, where the next stage is run in place and all is pure."""
    stage = turn.claim.turn.stage
    target = _target(stage, turn)
    if stage.order < Stage.PERSIST.order and turn.goes_on(target):
        held = turn.deferring(partial(_write, turn, env, target, True)).at(target)
        return _passage(turn, target, env, held)
    keeps = target is Stage.COMPACT and turn.goes_on(target)
    settles = stage is Stage.PERSIST
    with turn.unit(env.ledger, durable=BY_STAGE[stage].DURABLE, settles=settles) as unit:
        _write(turn, env, target, keeps, unit)
    return _passage(turn, target, env, turn.written().at(target) if keeps else None)


def _write(turn: TurnContext, env: Environment, target: Stage, keeps: bool, unit: Unit) -> None:
    """All that a stage leaves, and the move to the next one."""
    unit.add_events(turn.events)
    BY_STAGE[turn.claim.turn.stage].commit(turn, env, unit)
    work = turn.work.settled if target.order > Stage.PERSIST.order else turn.work
    if keeps:
        unit.keep(target, work)
    else:
        unit.hand_over(target, work)


def _put_before_persist(turn: TurnContext, env: Environment) -> Passage:
    """Somebody asked the turn to stop while its outcome was in our hands: `persist` claims it, and looks. [DESIGN 5]"""
    try:
        with turn.unit(env.ledger, durable=True) as unit:
            unit.hand_over(Stage.PERSIST, turn.work)
    except SessionOwnerError as error:
        turn = _refused(turn, error)
        with turn.unit(env.ledger, durable=True) as unit:
            unit.hand_over(Stage.PERSIST, turn.work)
    # What it will end as is not decided yet, whatever the run came to.
    return replace(_passage(turn, Stage.PERSIST, env, None), status=None)


def _not_served(claim: Claim, env: Environment) -> Passage:
    """Park a turn whose orchestrator this process does not have, unless somebody asked for its end: that takes none."""
    turn = claim.turn
    if turn.cancel_requested_at is not None and not turn.status.is_final:
        outcome = cancelled()
        with env.ledger.unit(claim, durable=True) as unit:
            env.snapshots.delete(turn.run_id, unit)
            unit.settle(outcome)
            unit.hand_over(Stage.DONE, claim.work.model_copy(update={"outcome": outcome}))
        return Passage(others=_admitted(env), turn=turn, status=outcome.status)
    wait = env.policy.no_worker_wait
    env.ledger.park(claim, reason="no-worker", wait=wait, stage=turn.stage, work=claim.work)
    park = Park(reason="no-worker", wait=wait, stage=turn.stage, work=claim.work)
    return Passage(others=_admitted(env), turn=turn, park=park)


def _parked(turn: TurnContext, park: Park, env: Environment) -> Passage:
    if turn.deferred:
        with turn.unit(env.ledger, durable=False):
            pass  # what was put off stays said, also where the turn begins anew
    env.ledger.park(
        turn.claim, reason=park.reason, wait=park.wait, stage=park.stage, work=park.work
    )
    return Passage(others=_admitted(env), turn=turn.claim.turn, park=park)


def _admitted(env: Environment) -> tuple[Wake, ...]:
    return tuple(env.ledger.admit(env.policy.max_in_flight)) if env.policy.admits else ()


def _run(turn: TurnContext, env: Environment) -> TurnContext | Park:
    """Run the stage, unless the turn is decided, cancelled or too late and the stage has nothing to add.

    A cancellation counts until `persist` claims, and so does the deadline: that stage goes by what its claim read, and
    who cancels later is told `too-late`. [DESIGN 5]
    """
    stage = turn.claim.turn.stage
    if stage is Stage.COMPACT:
        return BY_STAGE[stage].run(turn, env)
    if turn.claim.turn.cancel_requested_at is not None:
        turn = turn.decided(cancelled())
    elif turn.claim.late:
        turn = turn.decided(deadline_exceeded())
    try:
        if turn.work.outcome is None:
            turn.watch.check()
        return (
            BY_STAGE[stage].run(turn, env)
            if stage is Stage.PERSIST or turn.work.outcome is None
            else turn
        )
    except CancelRequested:
        return turn.decided(cancelled())
    except DeadlinePassed:
        return turn.decided(deadline_exceeded())


def _target(stage: Stage, turn: TurnContext) -> Stage:
    """A decided turn goes to persist at once; else the next stage."""
    return (
        Stage.PERSIST
        if turn.work.outcome and stage.order < Stage.PERSIST.order
        else stage.following
    )


def _passage(
    turn: TurnContext, target: Stage, env: Environment, held: TurnContext | None
) -> Passage:
    record, outcome = turn.claim.turn, turn.work.outcome
    following = Wake(turn_id=record.turn_id, stage=target, fence=record.fence)
    # A turn that is kept for `compact` frees its slot a moment later, and admits then.
    frees = target in (Stage.COMPACT, Stage.DONE) and held is None
    return Passage(
        following=None if target is Stage.DONE else following,
        others=_admitted(env) if frees else (),
        turn=record,
        status=outcome.status if outcome else None,
        held=held,
    )
