"""Stage 3: do not build on history that is being compacted. [O 5.4]

Parks the turn while a compaction holds the session's lock, then starts again at `load`, since what it read may have
changed [O 15.1 G6]; past `lock_max_wait` it goes on without, so that a stuck summarizer never blocks a session. Pure
but for one read, so running it twice gives the same.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from turnchain.orchestrator_core.contracts import Stage
from turnchain.orchestrator_core.contracts.events import LOCK_WAITING
from turnchain.orchestrator_core.environment import Environment
from turnchain.orchestrator_core.ports import Unit
from turnchain.orchestrator_core.turn_context import Park, TurnContext

DURABLE: Final = False


def run(turn: TurnContext, env: Environment) -> TurnContext | Park:
    """Go on, or park behind the compaction."""
    wait = decide(_held_for(turn, env), turn.work.lock_waits, env.policy.lock_max_wait)
    if wait is not None:
        work = turn.work.model_copy(update={"lock_waits": turn.work.lock_waits + 1})
        return Park(reason="compaction", wait=wait, stage=Stage.LOAD, work=work)
    if turn.work.lock_waits:
        turn = turn.saying(LOCK_WAITING, waits=turn.work.lock_waits)
    return turn


def commit(turn: TurnContext, env: Environment, unit: Unit) -> None:
    """Nothing beside the hand-over."""


def _held_for(turn: TurnContext, env: Environment) -> timedelta | None:
    if turn.head and not (turn.head[0] and turn.head[0].lock_acquired_at):
        return None  # as this process saw a moment ago, when it read the session in `load`
    return env.ledger.lock_wait(turn.session)


def decide(held_for: timedelta | None, waits: int, max_wait: timedelta) -> timedelta | None:
    """How long to park, or None to go on.

    One wait at most: it ends when the lock does or after `max_wait`, whichever is sooner, and then the turn fails open.
    """
    return None if held_for is None or waits else min(held_for, max_wait)
