"""Events out, bytes in return: one writer for requests, one for responses.

A message is one head, any number of `data`, one `end`; what to put on the wire is what each call
returns. A writer keeps count of the body, so that exactly what the head stated is sent: more is
refused at once, less at the end.

A call that raises has changed nothing and sent nothing: a head that was refused may be followed by
another, such as our own error page. WireError (500) means that the content must not be sent,
UsageError that the call came at the wrong time.
"""

from __future__ import annotations

from typing import Final

from egress.errors import UsageError, WireError
from egress.http1.events import CHUNKED, NO_BODY, UNTIL_CLOSE, Body, Framing, RequestHead, Version
from egress.http1.head_encoder import (
    encode_informational,
    encode_request_head,
    encode_response_head,
    encode_trailers,
)
from egress.types import Headers

_LAST_CHUNK: Final = b"0\r\n"


def framing_for(framing: Framing, version: Version) -> Framing:
    """Turn the framing of a response from upstream into one that a client with `version` can read.

    A body of unknown length goes out chunked, so that the client can tell a whole one from one that
    was cut; HTTP/1.0 has no chunks and gets it up to the close.
    """
    if framing.body is Body.CHUNKED or framing.body is Body.CLOSE:
        return CHUNKED if version == "1.1" else UNTIL_CLOSE
    return framing


class _Writer:
    """The body of the message that is being written."""

    def __init__(self) -> None:
        self._framing: Framing | None = None
        self._left = 0
        self._must_close = False
        self._is_last = False

    @property
    def open(self) -> bool:
        """A head was written, and its `end` was not."""
        return self._framing is not None

    @property
    def must_close(self) -> bool:
        """The connection has to be closed after this message."""
        return self._must_close

    def data(self, data: bytes) -> bytes:
        """Write a piece of body. An empty one writes nothing; it never ends the body."""
        framing = self._current()
        if not data:
            return b""
        if framing.body is Body.CHUNKED:
            return b"%x\r\n%b\r\n" % (len(data), data)
        if framing.body is not Body.CLOSE:
            if len(data) > self._left:
                raise WireError("The body to be sent is longer than its head states.", status=500)
            self._left -= len(data)
        return data

    def end(self, trailers: Headers = ()) -> bytes:
        """Write the end of the message. Trailers are dropped where the framing has no place for them."""
        framing = self._current()
        if self._left:
            raise WireError("The body to be sent is shorter than its head states.", status=500)
        last = _LAST_CHUNK + encode_trailers(trailers) if framing.body is Body.CHUNKED else b""
        self._framing = None
        return last

    def _begin(self, framing: Framing, *, must_close: bool) -> None:
        self._framing = framing
        self._left = framing.length if framing.body is Body.LENGTH else 0
        self._must_close = self._is_last = must_close

    def _current(self) -> Framing:
        if self._framing is None:
            raise UsageError("No message is being written.")
        return self._framing

    def _check_ready(self) -> None:
        if self._framing is not None:
            raise UsageError("The message before this one has not been ended.")
        if self._is_last:
            raise UsageError("No message may follow the last one of a connection.")


class RequestWriter(_Writer):
    """Writes requests to a server."""

    def head(
        self,
        method: str,
        target: str,
        headers: Headers,
        framing: Framing = NO_BODY,
        *,
        close: bool = False,
        upgrade: tuple[str, ...] = (),
        expect_continue: bool = False,
    ) -> bytes:
        """Write a request head; see `encode_request_head`."""
        self._check_ready()
        head = encode_request_head(
            method, target, headers, framing, close=close, upgrade=upgrade, expect_continue=expect_continue
        )
        self._begin(framing, must_close=close)
        return head


class ResponseWriter(_Writer):
    """Writes responses to a client, one for every `answer`."""

    def __init__(self) -> None:
        super().__init__()
        self._request: RequestHead | None = None
        self._answering = False

    def answer(self, request: RequestHead | None) -> None:
        """Say which request the next response belongs to; None where it could not be read.

        An answer to a request that could not be read closes the connection.
        """
        self._check_ready()
        if self._answering:
            raise UsageError("The request before this one has not been answered.")
        self._request = request
        self._answering = True

    def head(
        self,
        status: int,
        reason: str,
        headers: Headers,
        framing: Framing,
        *,
        close: bool = False,
        upgrade: tuple[str, ...] = (),
    ) -> bytes:
        """Write the head of the final response; see `encode_response_head`.

        It says `close` too where the request leaves no choice. A switch of protocols must be one
        that the request asked for.
        """
        self._check_ready()
        self._check_answering()
        request = self._request
        if upgrade and not set(upgrade) <= set(request.upgrade if request else ()):
            raise WireError("The response to be sent switches to what was not asked for.", status=500)
        if framing.body is Body.CHUNKED and request and request.version == "1.0":
            raise WireError("The client cannot read a chunked response.", "Use framing_for().", status=500)
        must_close = close or request is None or not request.keep_alive or framing.body is Body.CLOSE
        must_close = must_close and not upgrade
        method = request.method if request else "GET"
        head = encode_response_head(
            status, reason, headers, framing, method=method, close=must_close, upgrade=upgrade
        )
        self._begin(framing, must_close=must_close)
        self._is_last = must_close or status == 101 or (method == "CONNECT" and status < 300)
        self._answering = False
        return head

    def informational(self, status: int, reason: str = "", headers: Headers = ()) -> bytes:
        """Write an interim response; nothing at all to HTTP/1.0, which has none."""
        self._check_ready()
        self._check_answering()
        head = encode_informational(status, reason, headers)
        return b"" if self._request is None or self._request.version == "1.0" else head

    def _check_answering(self) -> None:
        if not self._answering:
            raise UsageError("There is no request to answer.")
