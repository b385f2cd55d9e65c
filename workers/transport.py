"""kombu's Redis transport, made to survive a broker that goes away, and items that are no messages.

For our own app only: `install` leaves another app's transport as it is. kombu 5.7.0.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from kombu.transport import TRANSPORT_ALIASES, redis
from kombu.utils.json import loads

log = logging.getLogger("turnchain.workers")


def use() -> None:
    """Have this process's `redis://`, `rediss://` and `redis+socket://` URLs mean the transport below.

    By their aliases, because a transport that is named beside the URL takes the scheme's place in everything shown, and
    is not taken for `redis+socket://` at all.
    """
    TRANSPORT_ALIASES["redis"] = TRANSPORT_ALIASES["rediss"] = f"{__name__}:Transport"


class Channel(redis.Channel):
    """A channel whose failures are the broker's, not the worker's."""

    _client: Any = None

    def _connparams(self, asynchronous: bool = False) -> dict[str, Any]:
        """As inherited, but of a channel whose connection was lost: then there is nothing to connect to.

        A worker acknowledges and gives back what the lost channel had delivered. That ended the worker with an
        AttributeError here; connection errors are what its callers expect and survive.
        """
        if self.connection.client is None:
            raise ConnectionError("the connection of this channel was lost")
        inherited: Any = super()  # kombu's stubs leave its private names out
        return inherited._connparams(asynchronous=asynchronous)

    def _create_client(self, asynchronous: bool = False) -> Any:
        """As inherited, but the client that writes is made once and not for every command, which cost more than that.

        It holds no connection, only the channel's pool, with which it is replaced. Safe for threads.
        """
        inherited: Any = super()
        if not asynchronous:
            client = self._client
            if client is None or client.connection_pool is not self.pool:
                client = self._client = inherited._create_client()
            return client
        client = inherited._create_client(asynchronous=True)  # the one that reads
        client.parse_response = partial(self._parse_response, client.parse_response)
        return client

    def _parse_response(
        self, parse: Any, connection: Any, command_name: str, **options: Any
    ) -> Any:
        """What the server answered; where that is an item that cannot be a message, nothing, as after a timeout.

        Such an item is gone from the list by then, so that it is dropped once. The reader raised on it, which ended the
        worker and, because the next one came upon the next item, one worker after another.
        """
        answer = parse(connection, command_name, **options)
        if command_name == "BRPOP" and answer and not self._is_message(answer[1]):
            log.warning("item dropped that is no message", extra={"queue": str(answer[0])[:120]})
            return None
        return answer

    def _is_message(self, item: bytes) -> bool:
        try:
            self.Message(loads(item), channel=self)
        except Exception:  # whatever a hostile item makes the parsers raise
            return False
        return True


class Transport(redis.Transport):
    """The transport of those channels."""

    Channel = Channel
