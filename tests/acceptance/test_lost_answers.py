"""The answer to a commit is lost on its way. [DESIGN 6, crash walk]"""

from __future__ import annotations

import contextlib
import socket
import threading

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.acceptance.harness import ONE_CLAIM_EACH, Floor, effects_of, pools

pytestmark = pytest.mark.acceptance


COMMITTED = b"Z\0\0\0\x05I"
"""ReadyForQuery, idle: the statement was a transaction of its own, and that is behind it."""


class Proxy:
    """Stands between a worker and Postgres, and cuts a connection once the server has committed what is marked."""

    def __init__(self, port: int, marks: bytes) -> None:
        self._port = port
        self._marks = marks
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.cuts = 0
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no further connections."""
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._port))
                marked = threading.Event()
                for serve in (self._forward, self._answer):
                    threading.Thread(
                        target=serve, args=(client, server, marked), daemon=True
                    ).start()

    def _forward(
        self, client: socket.socket, server: socket.socket, marked: threading.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(65536):
                with self._lock:
                    if self._marks in data and not self.cuts:
                        self.cuts += 1
                        marked.set()
                server.sendall(data)
        self._close(client, server)

    def _answer(
        self, client: socket.socket, server: socket.socket, marked: threading.Event
    ) -> None:
        held = b""
        with contextlib.suppress(OSError):
            while data := server.recv(65536):
                if not marked.is_set():
                    client.sendall(data)
                    continue
                held += data
                if COMMITTED in held:
                    break
        self._close(client, server)

    def _close(self, *sockets: socket.socket) -> None:
        for each in sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@pools(inline=["threads"])
def test_a_turn_whose_commit_in_persist_was_never_answered_is_settled_once(
    floor: Floor, pool: str
) -> None:
    """[DESIGN 6] COMMIT answer lost in persist: one checkpoint, one final event, and the chain goes on."""
    database = floor.database
    parts = conninfo_to_dict(database.url)
    proxy = Proxy(int(parts.get("port") or 5432), b"turnchain_append_checkpoint(")
    floor.stack.callback(proxy.close)
    url = (
        f"postgresql://{parts['user']}:{parts.get('password', '')}@127.0.0.1:{proxy.port}"
        f"/{parts['dbname']}?sslmode=disable"
    )
    floor.start(pool=pool, settings={"postgres_url": url})

    turn = floor.enqueue("s1")

    assert turn.result(10).ok
    floor.assert_settled_once(turn, "s1")
    assert proxy.cuts == 1
    assert "stage failed" in floor.logs()
    if floor.is_inline:
        # Kept for compact by a claim that ended there: only its lease tells.
        assert database.claims(turn) == [("load", 0), ("compact", 1)]
    else:
        assert database.claims(turn) == ONE_CLAIM_EACH
    assert database.effects(turn) == effects_of(1)
