"""Everything on one machine: both servers, the schema, and the processes of the table.

    with running(StackOptions(Path(".turnchain"))) as stack:
        client = turnchain.connect(stack.postgres_url, broker=stack.broker_url)

For a first try, for development and for the demo; it is what `turnchain up` runs. Our processes are started again when
they end. A server that ends takes the stack with it: it kept everything on disk, and its last words say what to do.
"""

from __future__ import annotations

from turnchain.workers.stack.children import Child
from turnchain.workers.stack.console import Console, LogFiles, Sink
from turnchain.workers.stack.data_directory import usual_directory
from turnchain.workers.stack.interrupts import Interrupted, Interrupts, interruptible
from turnchain.workers.stack.options import USUAL_PORTS, StackOptions
from turnchain.workers.stack.running import Stack, running

__all__ = [
    "USUAL_PORTS",
    "Child",
    "Console",
    "Interrupted",
    "Interrupts",
    "LogFiles",
    "Sink",
    "Stack",
    "StackOptions",
    "interruptible",
    "running",
    "usual_directory",
]
