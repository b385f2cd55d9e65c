"""One transaction under one claim: collected in the block, sent in one piece when it ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from turnchain.orchestrator_core.contracts import (
    Claim,
    NewEvent,
    Outcome,
    Stage,
    TurnWork,
    to_json,
)
from turnchain.orchestrator_core.contracts.events import ending_payload, terminal_event
from turnchain.orchestrator_core.ports import Unit
from turnchain.stores.postgres.connection import Connections, Params, Step
from turnchain.stores.postgres.rows import claim_params, outcome_json


class PostgresUnit:
    """`Unit` of the Postgres driver; the other two stores put their writes into it as well."""

    def __init__(self, claim: Claim) -> None:
        self._claim = claim
        self._events: list[dict[str, Any]] = []
        self._progress = False
        self._outcome: Outcome | None = None
        self._unless_stopped = False
        self._next_stage: Stage | None = None
        self._keeps = False
        self._work: TurnWork | None = None
        self._turn_index: int | None = None
        self._begins_session = False
        self._others: list[Step] = []

    @property
    def claim(self) -> Claim:
        """As `Unit.claim`."""
        return self._claim

    def add_events(self, events: Sequence[NewEvent]) -> None:
        """As `Unit.add_events`."""
        self._events += [event.model_dump(mode="json") for event in events]

    def mark_progress(self) -> None:
        """As `Unit.mark_progress`."""
        self._progress = True

    def settle(self, outcome: Outcome, *, unless_stopped: bool = False) -> None:
        """As `Unit.settle`. A turn that has an outcome keeps it."""
        self._outcome = self._outcome or outcome
        self._unless_stopped = unless_stopped

    def hand_over(self, stage: Stage, work: TurnWork | None = None) -> None:
        """As `Unit.hand_over`."""
        self._move(stage, work, keeps=False)

    def keep(self, stage: Stage, work: TurnWork) -> None:
        """As `Unit.keep`."""
        self._move(stage, work, keeps=True)

    def _move(self, stage: Stage, work: TurnWork | None, *, keeps: bool) -> None:
        decided = work is not None and work.outcome is not None
        if self._next_stage is None and self._claim.turn.stage is Stage.LOAD:
            # A load that refuses the turn moves it to persist, and begins no session.
            self._begins_session = not decided
        if work is not None:
            self._work = work
            self._turn_index = self._turn_index if decided else work.turn_index
        self._next_stage, self._keeps, self._progress = stage, keeps, True

    def later(self, name: str, params: Params) -> None:
        """Have another store's statement, a call of one function, carried out in this transaction."""
        self._others.append((name, params))

    def commit(self, connections: Connections, *, durable: bool) -> None:
        """Send all of it. The turn's row comes first: its guard decides over everything after."""
        connections.run_joined([("write_unit", self._params()), *self._others], durable=durable)

    def _params(self) -> dict[str, Any]:
        outcome, work, stage = self._outcome, self._work, self._next_stage
        return {
            **claim_params(self._claim),
            "events": to_json(self._events) if self._events else None,
            "progress": self._progress,
            "next_stage": None if stage is None else stage.value,
            "keeps": self._keeps,
            "work": None if work is None else work.model_dump_json(),
            "turn_index": self._turn_index,
            "begins_session": self._begins_session,
            "status": None if outcome is None else outcome.status.value,
            "outcome": None if outcome is None else outcome_json(outcome),
            "terminal": None if outcome is None else self._terminal(outcome),
            "unless_stopped": self._unless_stopped,
        }

    def _terminal(self, outcome: Outcome) -> str:
        turn = self._claim.turn
        if self._turn_index is not None:
            turn = turn.model_copy(update={"turn_index": self._turn_index})
        event = NewEvent(type=terminal_event(outcome.status), payload=ending_payload(turn, outcome))
        return event.model_dump_json()


def own_unit(unit: Unit) -> PostgresUnit:
    """The unit as this driver's; a checkpoint here cannot join another store's transaction."""
    if not isinstance(unit, PostgresUnit):
        raise TypeError(
            f"a Postgres store needs the unit of a Postgres ledger, not a {type(unit).__name__}"
        )
    return unit
