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
        self._next_stage: Stage | None = None
        self._work: TurnWork | None = None
        self._others: list[Step] = []

    @property
    def claim(self) -> Claim:
        """As `Unit.claim`."""
        return self._claim

    def add_events(self, events: Sequence[NewEvent]) -> None:
        """As `Unit.add_events`."""
        for event in events:
            self._add_event(event.type, event.model_dump(mode="json")["payload"], terminal=False)

    def mark_progress(self) -> None:
        """As `Unit.mark_progress`."""
        self._progress = True

    def settle(self, outcome: Outcome) -> None:
        """As `Unit.settle`. A turn that has an outcome keeps it."""
        if self._outcome is not None:
            return
        self._outcome = outcome
        payload = ending_payload(self._claim.turn, outcome)
        self._add_event(terminal_event(outcome.status), payload, terminal=True)

    def hand_over(self, stage: Stage, work: TurnWork | None = None) -> None:
        """As `Unit.hand_over`."""
        self._next_stage, self._work, self._progress = stage, work, True

    def later(self, name: str, params: Params) -> None:
        """Carry out another store's statement in this transaction."""
        self._others.append((name, params))

    def commit(self, connections: Connections, *, durable: bool) -> None:
        """Send all of it. The turn's row comes first: its guard decides over everything after."""
        own: Step = ("write_unit", self._params())
        if self._others:
            connections.run_all([own, *self._others], durable=durable)
        else:
            connections.run(*own, durable=durable)

    def _params(self) -> dict[str, Any]:
        outcome, work, stage = self._outcome, self._work, self._next_stage
        # A load that refuses the turn hands over to persist, and begins no session.
        decided = work is not None and work.outcome is not None
        loads = self._claim.turn.stage is Stage.LOAD and stage is not None
        return {
            **claim_params(self._claim),
            "events": to_json(self._events),
            "progress": self._progress,
            "status": None if outcome is None else outcome.status.value,
            "outcome": None if outcome is None else outcome_json(outcome),
            "next_stage": None if stage is None else stage.value,
            "work": None if work is None else work.model_dump_json(),
            "turn_index": None if work is None or decided else work.turn_index,
            "begins_session": loads and not decided,
        }

    def _add_event(self, kind: str, payload: dict[str, Any], *, terminal: bool) -> None:
        self._events.append({"type": kind, "payload": payload, "terminal": terminal})


def own_unit(unit: Unit) -> PostgresUnit:
    """The unit as this driver's; a checkpoint here cannot join another store's transaction."""
    if not isinstance(unit, PostgresUnit):
        raise TypeError(
            f"a Postgres store needs the unit of a Postgres ledger, not a {type(unit).__name__}"
        )
    return unit
