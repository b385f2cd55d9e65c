"""What an operator reads of the ledger: never written to, never waited for."""

from __future__ import annotations

from typing import Protocol

from turnchain.orchestrator_core.contracts import (
    SessionFilter,
    SessionPage,
    TurnFacts,
    TurnFilter,
    TurnId,
    TurnPage,
)


class Inspection(Protocol):
    """The operator's read side. Each question is one statement, which takes no lock and reads few rows of many.

    Raises (every question):
        StoreUnavailableError: the server did not answer, or not in time.
        SchemaMissingError: the tables are not there.
    """

    def turns(self, wanted: TurnFilter, limit: int) -> TurnPage:
        """At most `limit` of the wanted turns, the last accepted first."""
        ...

    def sessions(self, wanted: SessionFilter, limit: int) -> SessionPage:
        """Some `limit` of the wanted sessions, the last begun first; those of the last one's instant come along."""
        ...

    def facts(self, turn_id: TurnId) -> TurnFacts | None:
        """Why the turn stands where it does; None if there is no such turn."""
        ...
