"""What a pool process is called: by itself in its claims, and by its parent when it has died."""

from __future__ import annotations

import os
import socket
from secrets import token_hex
from typing import Final

# Made in the parent, before it forks, and so the same in all of its children. Host and pid alone are not unique: two
# containers may share a host name and count their pids each for itself.
_FAMILY: Final = f"{socket.gethostname()}:{token_hex(4)}"


def process_id(pid: int | None = None) -> str:
    """`host:family:pid` of this process, or of a child of it."""
    return f"{_FAMILY}:{os.getpid() if pid is None else pid}"
