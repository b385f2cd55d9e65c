"""The ledger: its verbs by idea, over one set of tables."""

from __future__ import annotations

from turnchain.stores.memory.accepting import Accepting
from turnchain.stores.memory.admitting import Admitting
from turnchain.stores.memory.cancelling import Cancelling
from turnchain.stores.memory.moving import Moving
from turnchain.stores.memory.processes import Processes
from turnchain.stores.memory.reading import Reading
from turnchain.stores.memory.steps import Steps
from turnchain.stores.memory.sweeping import Sweeping


class MemoryLedger(Accepting, Cancelling, Admitting, Moving, Steps, Reading, Processes, Sweeping):
    """`Ledger` in this process's memory."""
