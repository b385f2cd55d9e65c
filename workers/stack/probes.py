"""Whether our processes answer. What they log cannot tell: its level is the user's."""

from __future__ import annotations

import http.client
import socket
import sys
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

_PATIENCE_SECONDS: Final = 1.0


def flower_answers(pid: int | None, port: int | None) -> bool:
    """Whether this very process serves Flower's pages there: another stack's may have been quicker."""
    if not pid or not port or not _listens(pid, port):
        return False
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE_SECONDS)
    try:
        connection.request("GET", "/healthcheck")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def workers_that_answer(broker_url: str, key_prefix: str, names: Collection[str]) -> set[str]:
    """Which of these answer a ping within a second."""
    if not names:
        return set()
    from celery import Celery
    from kombu.exceptions import OperationalError
    from redis import RedisError

    app = Celery(broker=broker_url, set_as_current=False)
    app.conf.broker_transport_options = {
        "global_keyprefix": key_prefix,
        "socket_timeout": _PATIENCE_SECONDS,
    }
    host = socket.gethostname()
    try:
        answers: Any = app.control.ping(
            destination=[f"{name}@{host}" for name in names], timeout=_PATIENCE_SECONDS
        )
        return {
            node.partition("@")[0]
            for each in cast("list[dict[str, Any]]", answers)
            for node in each
        }
    except (OperationalError, RedisError, OSError):
        return set()
    finally:
        app.close()


def _listens(pid: int, port: int) -> bool:
    """Whether the process has the port; elsewhere than on Linux it is taken for granted."""
    if sys.platform != "linux":
        return True
    address = int.from_bytes(socket.inet_aton("127.0.0.1"), sys.byteorder)
    listening = f"{address:08X}:{port:04X} 00000000:0000 0A "  # LISTEN in <net/tcp_states.h>
    table = Path("/proc/net/tcp").read_text().splitlines()
    sockets = {f"socket:[{line.split()[9]}]" for line in table if listening in line}
    with suppress(OSError):  # it has ended, or closed one meanwhile
        return any(str(file.readlink()) in sockets for file in Path(f"/proc/{pid}/fd").iterdir())
    return False
