"""Why a turn does not move, in one sentence. [DESIGN 1.7]

Pure: from facts read at one instant to words. They name ids, instants, kinds and codes, never content.
"""

from __future__ import annotations

from dataclasses import dataclass

from turnchain.orchestrator_core.contracts import COUNT_LIMIT, Stage, TurnFacts, TurnStatus
from turnchain.orchestrator_core.situation import Rules, Situation, next_rewake
from turnchain.orchestrator_core.standing import (
    Standing,
    capacity,
    is_late,
    owner_process,
    serving,
)


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a turn stands where it does."""

    standing: Standing
    stuck: bool
    """Nobody will move it until an operator does something."""
    sentence: str


def explain(facts: TurnFacts, rules: Rules) -> Explanation:
    """Say why the turn stands where it does, and whether it stays there."""
    situation = Situation(facts.position, facts.around, rules)
    before = Situation(facts.before, facts.around, rules) if facts.before else None
    words = (
        _queued(facts, situation, before)
        if situation.standing is Standing.QUEUED
        else _stands(situation)
    )
    return Explanation(
        standing=situation.standing,
        stuck=situation.is_stuck or (before is not None and before.is_stuck),
        sentence=f"{words[0].upper()}{words[1:]}.",
    )


def _queued(facts: TurnFacts, situation: Situation, before: Situation | None) -> str:
    ending = _ending(situation)
    if ending:
        return f"queued, but {ending}"
    if before is None:
        return _first(situation, facts.preferred)
    name = before.turn.turn_id
    if before.standing is Standing.QUEUED:
        turns = _at_least(facts.queued_before, "queued turn")
        behind = f"{turns} of its session, the first of which, {name}, is {_first(before)}"
    else:
        behind = f"turn {name} of its session, which is {_stands(before)}"
    # Where nobody goes on with that one either, its own sentence says why.
    blocked = None if before.is_stuck else _nobody(situation)
    then = f"; and nobody will start this one then: {blocked}" if blocked else ""
    return f"queued behind {behind}{then}"


def _first(situation: Situation, preferred: int = 0) -> str:
    """Why a turn is not admitted that its session does not hold up."""
    turn, around = situation.turn, situation.around
    ending = _ending(situation)
    if ending:
        return f"queued, but {ending}"
    if turn.runner == "engine":
        return f"queued for its engine alone, {situation.sign_of_life()}"
    blocked = situation.obstacle()
    if blocked:
        return f"queued, and nobody will start it: {blocked}"
    most = capacity(around, situation.rules.policy.max_in_flight)
    head = f"queued with priority {turn.priority}"
    if preferred:
        head += f", behind {_at_least(preferred, 'turn')} of its tenant that go first"
    if around.in_flight >= most:
        flying = _counted(around.in_flight, "turn")
        are = "is" if around.in_flight == 1 else "are"
        slots = _counted(most, "slot")
        return f"{head}, because capacity is full: {flying} {are} owned or ready on {slots}"
    free = f"though {most - around.in_flight} of {_counted(most, 'slot')} are free"
    return f"{head}, {free}: {situation.sweep('admits it at the latest')}"


def _nobody(situation: Situation) -> str | None:
    """Why nobody will go on with a turn that nobody has in hand."""
    return None if situation.is_held else situation.obstacle()


def _stands(situation: Situation) -> str:
    """Where a turn stands that was admitted, beginning with its standing: fit to follow 'which is'."""
    if not situation.turn.status.is_final:
        return _waits(situation)
    over = _over(situation)
    if situation.standing is Standing.SETTLED:
        return over
    return f"{over}, and only its upkeep is left, {_waits(situation)}"


def _waits(situation: Situation) -> str:
    standing, ending = situation.standing, _ending(situation)
    if standing is Standing.OWNED:
        return _owned(situation)
    if standing is Standing.PARKED:
        return _parked(situation, ending)
    if standing is Standing.PAUSED:
        waits = f"but {ending}" if ending else "waiting for an answer from outside"
        return f"paused at {situation.turn.stage}, {waits}"
    return _ready(situation, ending)


def _ready(situation: Situation, ending: str | None) -> str:
    turn, wakes = situation.turn, situation.position.wakes
    since = f"ready at {turn.stage} since {situation.at(turn.ready_at)}"
    blocked = ending or _nobody(situation)
    if blocked:
        return f"{since}, but {blocked}"
    if turn.runner == "engine":
        return f"{since} for its engine alone, {situation.sign_of_life()}"
    again = next_rewake(situation.position, situation.rules.sweep)
    when = (
        f"at {situation.at(again)}"
        if again and again > situation.around.now
        else "with the next sweep"
    )
    so_far = f" (after {_counted(wakes, 'time')})" if wakes else ""
    queue = situation.rules.queues[turn.stage]
    return (
        f"{since}: its message should be in queue {queue!r}, no worker has claimed it yet, and it "
        f"is published again{so_far} {when}"
    )


def _parked(situation: Situation, ending: str | None) -> str:
    turn = situation.turn
    until = f"until {situation.at(turn.ready_at)}" if turn.ready_at else "until it is told to go on"
    if turn.parked == "no-worker":
        name = turn.session.orchestrator_name
        why = f"because the worker that claimed it does not serve orchestrator {name!r}"
    elif turn.parked == "compaction":
        why = "at the latest, while its session is compacted"
    else:
        why = f"for {turn.parked!r}"
    parked = f"parked at {turn.stage} {until}, {why}"
    blocked = ending or _nobody(situation)
    if blocked:
        return f"{parked}, but {blocked}"
    if turn.parked == "no-worker":
        others = len(serving(turn, situation.around, situation.rules.queues))
        return (
            f"{parked}, while {_counted(others, 'live worker')} {'does' if others == 1 else 'do'}"
        )
    return parked


def _owned(situation: Situation) -> str:
    turn, position, now = situation.turn, situation.position, situation.around.now
    owner = f"owned by process {owner_process(turn)}, which runs {turn.stage}"
    if turn.stage is Stage.DISPATCH:
        owner += f" ({_counted(position.iterations, 'iteration')} settled)"
    lease = situation.at(turn.lease_expires_at)
    if turn.lease_expires_at is None or turn.lease_expires_at <= now:
        return f"{owner} and let its lease run out at {lease}, and {situation.sweep(_takeover(situation))}"
    if not situation.is_held:
        takeover = situation.sweep(_takeover(situation))
        return (
            f"{owner} and is heard of no more, with a lease until {lease}, after which {takeover}"
        )
    if turn.cancel_requested_at and not turn.status.is_final:
        asked = situation.at(turn.cancel_requested_at)
        return f"{owner} and was asked to stop at {asked}, which it does at its next boundary"
    if turn.deadline and turn.deadline <= now and not turn.status.is_final:
        passed = situation.at(turn.deadline)
        return f"{owner} past its deadline of {passed}, and stops at its next boundary"
    last = position.last_event_at
    return f"{owner} with a lease until {lease}" + (
        f", its last event at {situation.at(last)}" if last else ""
    )


def _takeover(situation: Situation) -> str:
    turn, most = situation.turn, situation.rules.policy.max_attempts
    if turn.runner == "engine":
        return f"ends {'its upkeep' if turn.status.is_final else 'it as failed (TURN_INTERRUPTED)'}"
    if turn.attempts + 1 < most:
        return f"takes it over (attempt {turn.attempts + 1} of {most})"
    what = "its upkeep" if turn.status.is_final else "it"
    return f"gives {what} up (attempt {turn.attempts + 1} of {most})"


def _ending(situation: Situation) -> str | None:
    """What ends an unowned turn before it gets on, or None."""
    turn = situation.turn
    if turn.lease_owner is not None:
        return None
    if is_late(turn, situation.around.now):
        ends = situation.sweep("ends it as failed (DEADLINE_EXCEEDED)")
        return f"its deadline passed at {situation.at(turn.deadline)}, and {ends}"
    if turn.runner == "engine" and not situation.is_held:
        what = "ends its upkeep" if turn.status.is_final else "ends it as failed (TURN_INTERRUPTED)"
        return f"its engine is gone, {situation.sign_of_life()}, and {situation.sweep(what)}"
    if turn.cancel_requested_at and not turn.status.is_final:
        asked = f"somebody asked at {situation.at(turn.cancel_requested_at)} to cancel it"
        return f"{asked}, and {situation.obstacle() or 'the next worker that claims it ends it'}"
    return None


def _over(situation: Situation) -> str:
    turn, code = situation.turn, situation.position.error_code
    when = situation.at(turn.settled_at)
    if turn.status is TurnStatus.DEAD:
        lost = f"{_counted(turn.attempts, 'worker')} in a row without progress"
        return (
            f"dead since {when}, given up after it lost {lost}: look for what kills them, then "
            "enqueue it again"
        )
    if turn.status is TurnStatus.AWAITING_INPUT:
        return f"settled as {turn.status} at {when}, with an answer"
    return f"settled as {turn.status} at {when}" + (f", with the error {code}" if code else "")


def _counted(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _at_least(number: int, thing: str) -> str:
    """For what is counted to a limit."""
    return _counted(number, thing) if number < COUNT_LIMIT else f"{number} or more {thing}s"
