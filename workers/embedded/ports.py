"""Ports of 127.0.0.1."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator


def free_port() -> int:
    """One that nobody listens on now; somebody may take it before it is used."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def refusal(port: int) -> str | None:
    """Why a server of ours could not listen on it now, in the system's words; None if it could."""
    try:
        with socket.create_server(("127.0.0.1", port)):
            return None
    except OSError as error:
        return os.strerror(error.errno) if error.errno else str(error)


def from_usual(port: int) -> Iterator[int]:
    """Those that are free now, from the usual one upwards."""
    return (each for each in range(port, 2**16) if refusal(each) is None)


def converse(port: int, request: str) -> str:
    """Send lines to a server and return as many lines of answer, or what came until it failed."""
    answer = b""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1) as peer:
        peer.sendall(request.encode())
        while answer.count(b"\n") < request.count("\n") and (more := peer.recv(256)):
            answer += more
    return answer.decode(errors="replace")
