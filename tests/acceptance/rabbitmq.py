"""A RabbitMQ to test on, and a virtual host in it that is nobody else's."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Generator

VARIABLE = "TURNCHAIN_TEST_RABBITMQ_URL"
_LOCAL = ("127.0.0.1", 5672)
_CONTROL_SECONDS = 60


@contextlib.contextmanager
def virtual_host() -> Generator[str | None]:
    """The URL that the environment names, for whoever sets it gives that place to the tests; else a virtual host of our
    own on this machine's server, removed at the end; else None."""
    given = os.environ.get(VARIABLE)
    if given:
        yield given
        return
    name = f"turnchain_test_{secrets.token_hex(4)}"
    if not (_answers() and _control("add_vhost", name)):
        yield None
        return
    try:
        _control("set_permissions", "-p", name, "guest", ".*", ".*", ".*")
        yield f"amqp://guest:guest@{_LOCAL[0]}:{_LOCAL[1]}/{name}"
    finally:
        _control("delete_vhost", name)


def _answers() -> bool:
    with contextlib.suppress(OSError), socket.create_connection(_LOCAL, 1):
        return True
    return False


def _control(*arguments: str) -> bool:
    program = shutil.which("rabbitmqctl")
    if program is None:
        return False
    run = subprocess.run(
        [program, "-q", *arguments], capture_output=True, timeout=_CONTROL_SECONDS, check=False
    )
    return run.returncode == 0
