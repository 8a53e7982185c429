"""A connection to the API's port on which every request has one reading.

The library is lenient: it takes a bare line feed for the end of a line, and joins a field that goes on in the
next line. A proxy in front may read such bytes in another way, and would see other requests than we do. So
the strict reader of this project reads all of them first, and nothing that it refuses reaches the library.
"""

from __future__ import annotations

import asyncio
from typing import Final

import h11
import msgspec

from egress.api.schema import Problem
from egress.errors import WireError
from egress.http1 import NO_BODY, MessageLimits, RequestHead, RequestReader
from egress.uvicorn_idle_timeout import TimedConnection

_LIMITS: Final = MessageLimits(target=56 * 1024)
"""A path in a query may have 4096 characters, each of twelve when it is quoted."""
_WEBSOCKET: Final = "websocket"


class StrictConnection(TimedConnection):
    """A connection that ends with the first request that could be read in two ways."""

    _last: RequestHead | None = None
    """The request that is being read, or was read last."""
    _is_over = False
    """True once no further request can come: the last one said so, or was refused."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._reader = RequestReader(_LIMITS)

    def data_received(self, data: bytes) -> None:
        if self._is_over:
            return
        try:
            self._read(data)
        except WireError as error:
            self._refuse(error)
            return
        super().data_received(data)

    def _read(self, data: bytes) -> None:
        """Read everything that came in. Raises `WireError`."""
        events = self._reader.feed(data)
        while True:
            for event in events:
                if isinstance(event, RequestHead):
                    self._last = event
                    _check_head(event)
            if not self._reader.waiting or self._last is None:
                return
            if _WEBSOCKET in self._last.upgrade and self._reader.detach():
                raise WireError("Something was sent before the WebSocket was accepted.")
            if _WEBSOCKET in self._last.upgrade or not self._last.keep_alive:
                self._is_over = True
                return
            # Read ahead of the answers: where a request ends does not depend on them.
            events = self._reader.next_message()

    def _refuse(self, error: WireError) -> None:
        self._is_over = True
        # An answer that is under way must not get another one in its middle.
        if self.conn.our_state is not h11.IDLE:
            self.transport.abort()
            return
        body = msgspec.json.encode(Problem(type="request.invalid", message=error.message, hint=error.hint))
        fields = (("content-type", "application/json"), ("content-length", str(len(body))))
        head = h11.Response(status_code=error.status, headers=[*fields, ("connection", "close")])
        for event in (head, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


def _check_head(head: RequestHead) -> None:
    """Refuse requests that are right, and not for a server like this one. Raises `WireError`."""
    if head.form != "origin":
        raise WireError("The request is one to a proxy.", "Request a path.")
    if _WEBSOCKET in head.upgrade and (len(head.upgrade) > 1 or head.framing != NO_BODY):
        raise WireError("A handshake of a WebSocket has no body, and names no other protocol.")
