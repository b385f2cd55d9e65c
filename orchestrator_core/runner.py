"""One stage of one turn: claim it, run it, hand it over. The tasks and the engine both come through here. [DESIGN 5]"""

from __future__ import annotations

from dataclasses import dataclass, replace

from turnchain.orchestrator_core.contracts import Claim, Outcome, Refusal, Stage, TurnStatus, Wake
from turnchain.orchestrator_core.environment import Environment
from turnchain.orchestrator_core.errors import (
    CancelRequested,
    DeadlinePassed,
    HandBackAsked,
    LeaseLost,
    SessionOwnerError,
    StoreLost,
    TurnConflictError,
    to_record,
)
from turnchain.orchestrator_core.ports import Watch
from turnchain.orchestrator_core.refusals import cancelled, deadline_exceeded
from turnchain.orchestrator_core.stages import BY_STAGE
from turnchain.orchestrator_core.turn_context import Park, TurnContext


@dataclass(frozen=True, slots=True)
class Passage:
    """What came of a wake: what this turn needs next, and which other turns became ready."""

    following: Wake | None = None
    """The turn's next stage, ready. None: nothing of this turn is to be run from here."""
    others: tuple[Wake, ...] = ()
    """Wakes to publish."""
    refusal: Refusal | None = None
    """Why nothing was run."""


def run_stage(wake: Wake, env: Environment) -> Passage:
    """Run the stage that the wake names, if it is still to be run and nobody else does.

    Safe to call any number of times with the same wake, from any number of processes at once: one of them gets the
    claim. What a lost lease leaves undone belongs to whoever has it now.

    Raises:
        StoreUnavailableError: the ledger did not answer; the turn stays where it is, for the sweep.
    """
    granted = env.clock.elapsed()
    claim = env.ledger.claim(wake, env.leases.new_owner(), env.policy.lease)
    if isinstance(claim, Refusal):
        return Passage(others=(claim.ahead,) if claim.ahead else (), refusal=claim)
    watch = env.leases.begin(claim, granted)
    try:
        return _run_claimed(claim, watch, env)
    except LeaseLost:
        return Passage(refusal=Refusal(reason="moved-on"))
    except HandBackAsked:
        handed_back = env.ledger.hand_back(claim)
        return Passage(others=(handed_back,) if handed_back else ())
    except StoreLost as lost:
        raise lost.error from lost.error.__cause__
    finally:
        env.leases.end(claim)


def _run_claimed(claim: Claim, watch: Watch, env: Environment) -> Passage:
    definition = env.registry.find(claim.turn.session.orchestrator_name)
    if definition is None:
        return _not_served(claim, env)
    signature = env.registry.signatures[definition.name]
    turn = TurnContext(
        claim=claim, definition=definition, signature=signature, watch=watch, work=claim.work
    )
    result = _run(turn, env)
    if isinstance(result, Park):
        env.ledger.park(
            claim, reason=result.reason, wait=result.wait, stage=result.stage, work=result.work
        )
        return Passage(others=_admitted(env))
    try:
        target = _committed(result, env)
    except (SessionOwnerError, TurnConflictError) as error:
        # What the turn found is no longer so: another owner's session, another turn's index. It ends, with that.
        refused = Outcome(status=TurnStatus.FAILED, error=to_record(error))
        target = _committed(replace(turn, events=()).decided(refused), env)
    return _passage(claim, target, env)


def _not_served(claim: Claim, env: Environment) -> Passage:
    """Park a turn whose orchestrator this process does not have, unless somebody asked for its end: that takes none."""
    turn = claim.turn
    if turn.cancel_requested_at is not None and not turn.status.is_final:
        outcome = cancelled()
        with env.ledger.unit(claim, durable=True) as unit:
            env.snapshots.delete(turn.run_id, unit)
            unit.settle(outcome)
            unit.hand_over(Stage.DONE, claim.work.model_copy(update={"outcome": outcome}))
    else:
        wait = env.policy.no_worker_wait
        env.ledger.park(claim, reason="no-worker", wait=wait, stage=turn.stage, work=claim.work)
    return Passage(others=_admitted(env))


def _admitted(env: Environment) -> tuple[Wake, ...]:
    return tuple(env.ledger.admit(env.policy.max_in_flight)) if env.policy.admits else ()


def _committed(turn: TurnContext, env: Environment) -> Stage:
    """Hand the turn over, with all that the stage leaves, in one transaction; returns the stage it is at now."""
    stage = turn.claim.turn.stage
    module = BY_STAGE[stage]
    target = _target(stage, turn)
    with env.ledger.unit(turn.claim, durable=module.DURABLE) as unit:
        unit.add_events(turn.events)
        module.commit(turn, env, unit)
        unit.hand_over(target, turn.work)
    return target


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


def _passage(claim: Claim, target: Stage, env: Environment) -> Passage:
    following = Wake(turn_id=claim.turn.turn_id, stage=target, fence=claim.turn.fence)
    if target is Stage.COMPACT:
        return Passage(following=following, others=_admitted(env))
    if target is Stage.DONE:
        return Passage(others=_admitted(env))
    return Passage(following=following)
