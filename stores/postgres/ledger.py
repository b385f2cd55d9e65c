"""The ledger: its verbs by idea, over one set of connections."""

from __future__ import annotations

from turnchain.stores.postgres.accepting import Accepting
from turnchain.stores.postgres.admitting import Admitting
from turnchain.stores.postgres.cancelling import Cancelling
from turnchain.stores.postgres.moving import Moving
from turnchain.stores.postgres.processes import Processes
from turnchain.stores.postgres.reading import Reading
from turnchain.stores.postgres.steps import Steps
from turnchain.stores.postgres.sweeping import Sweeping


class PostgresLedger(Accepting, Cancelling, Admitting, Moving, Steps, Reading, Processes, Sweeping):
    """`Ledger` in Postgres."""
