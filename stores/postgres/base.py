"""What every part of the ledger works on."""

from __future__ import annotations

from turnchain.stores.postgres.connection import Connections


class Part:
    """A part of the ledger over the connections that all parts share."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
