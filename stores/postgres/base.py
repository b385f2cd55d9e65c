"""What every part of the ledger works on."""

from __future__ import annotations

from turnchain.orchestrator_core.contracts import TurnRecord, TurnStatus
from turnchain.stores.postgres.connection import Connections, Step
from turnchain.stores.postgres.ending import Ending, end_params


class Part:
    """A part of the ledger over the connections that all parts share."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def end_unowned(self, turn: TurnRecord, ending: Ending) -> bool:
        """End a turn without an owner; False if it stands otherwise by now."""
        params = end_params(turn, ending, lost=False, died=False)
        if turn.status is not TurnStatus.QUEUED:
            return bool(self._connections.run_safely("end_turn", params, durable=True))
        steps: list[Step] = [
            ("lock_queue", {}),
            ("end_turn", params),
            ("let_up", {"turn_id": turn.turn_id}),
        ]
        return bool(self._connections.run_all(steps, durable=True)[1])
