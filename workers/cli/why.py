"""`turnchain why TURN`: why it does not move, in one sentence. [DESIGN 1.7]"""

from __future__ import annotations

import argparse
from typing import Final

from turnchain.orchestrator_core.contracts import JSONObject, Stage, TurnFacts, TurnId
from turnchain.orchestrator_core.errors import InvalidInputError
from turnchain.orchestrator_core.explaining import Explanation, explain
from turnchain.orchestrator_core.situation import Rules, next_rewake, told
from turnchain.orchestrator_core.standing import Standing, capacity, serving
from turnchain.orchestrator_core.wire import is_turn_id
from turnchain.workers.cli import output, reading
from turnchain.workers.printable import printable

SUMMARY: Final = (
    "say in one sentence why a turn does not move; exit status 1 if nobody will move it"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("turn", metavar="TURN", help="its id, or a task id of Flower or a log")
    reading.add_json(parser)


def run(options: argparse.Namespace) -> int:
    """Print the sentence and a few facts; 1 if nobody will move the turn.

    Raises:
        InvalidInputError: there is no such turn.
    """
    turn_id = _turn_id(options.turn)
    with reading.opened() as reader:
        facts = reader.inspection.facts(turn_id)
    if facts is None:
        raise InvalidInputError(f"no turn has the id {turn_id!r}; `turnchain turns` lists them")
    explanation = explain(facts, reader.rules)
    if options.json:
        output.write_json([_json(facts, explanation, reader.rules)])
    else:
        lines = output.aligned(_facts(facts, reader.rules))
        output.write("".join(f"{line}\n" for line in [printable(explanation.sentence), *lines]))
    return 1 if explanation.stuck else 0


def _turn_id(text: str) -> TurnId:
    turn_id = text.strip().lower().partition(":")[0]
    if not is_turn_id(turn_id):
        raise InvalidInputError(f"{text!r} is no turn id: that is a UUID of 36 characters")
    return TurnId(turn_id)


def _facts(facts: TurnFacts, rules: Rules) -> list[tuple[str, str]]:
    """What a person asks next."""
    position, now = facts.position, facts.around.now
    turn = position.turn
    session = f"{turn.session.orchestrator_name} / {turn.session.session_id}"
    shown = [
        ("session", printable(session)),
        ("accepted", told(turn.accepted_at, now)),
    ]
    if position.last_event and position.last_event_at:
        last = f"{position.last_event}, {told(position.last_event_at, now)}"
        shown.append(("last event", last))
    if turn.takeovers or turn.attempts:
        most = rules.policy.max_attempts
        lost = f"{turn.takeovers} in all, {turn.attempts} without progress (dead at {most})"
        shown.append(("takeovers", lost))
    if position.open_steps:
        shown.append(("open steps", str(position.open_steps)))
    if turn.stage is not Stage.DONE:
        able = len(serving(turn, facts.around, rules.queues))
        shown.append(("workers", f"{len(facts.around.processes)} live, {able} for this turn"))
    return [(f"  {label}", value) for label, value in shown]


def _json(facts: TurnFacts, explanation: Explanation, rules: Rules) -> JSONObject:
    """The sentence, the turn as in `turns --json`, and what the sentence is made of."""
    position, around = facts.position, facts.around
    turn = position.turn
    ready = explanation.standing is Standing.READY
    return {
        "turn_id": turn.turn_id,
        "standing": explanation.standing.value,
        "stuck": explanation.stuck,
        "sentence": explanation.sentence,
        "read_at": output.iso(around.now),
        "turn": reading.turn_json(turn, around.now),
        "queue": None if turn.stage is Stage.DONE else rules.queues[turn.stage],
        "behind_turn_id": facts.before.turn.turn_id if facts.before else None,
        "queued_before": facts.queued_before,
        "preferred": facts.preferred,
        "in_flight": around.in_flight,
        "capacity": capacity(around, rules.policy.max_in_flight),
        "live_processes": [each.process_id for each in around.processes],
        "able_processes": [each.process_id for each in serving(turn, around, rules.queues)],
        "last_heartbeat_at": output.iso(around.last_heartbeat_at),
        "swept_at": output.iso(around.swept_at),
        "wakes": position.wakes,
        "next_rewake_at": output.iso(next_rewake(position, rules.sweep)) if ready else None,
        "last_event": position.last_event,
        "last_event_at": output.iso(position.last_event_at),
        "iterations": position.iterations,
        "open_steps": position.open_steps,
        "error_code": position.error_code,
    }
