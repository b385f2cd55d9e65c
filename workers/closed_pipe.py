"""What to do with a stream whose reader has gone, as in `… | head`."""

from __future__ import annotations

import os
from typing import TextIO


def abandon(stream: TextIO) -> None:
    """Let what is still buffered go nowhere.

    Python flushes its standard streams once more at its end; with the pipe still there that fails, and the process ends
    with 120.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
