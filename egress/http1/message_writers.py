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
from egress.http1.fields import (
    CONNECTION_FIELDS,
    LOOKALIKE_FIELDS,
    is_forbidden,
    read_length,
    upgrade_protocols,
)
from egress.http1.grammar import CANONICAL_BLOCK, REQUEST_LINE, STATUS_LINE
from egress.http1.heads import (
    CHUNKED,
    NO_BODY,
    UNTIL_CLOSE,
    Body,
    Framing,
    RequestHead,
    Version,
    has_no_body,
    is_authority,
    read_target,
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
            raise WireError("The response to be sent makes a switch that was not requested.", status=500)
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


# Heads are written in the one spelling that our own readers read back unchanged. The check is made on the
# bytes about to be sent, so no code runs between it and the wire: a value with CR, LF or NUL cannot be
# written. Framing, closing, upgrading and expecting are arguments; fields that would say the same a second
# time are refused among the headers. Content-Length alone may stand there, if it agrees with the framing.
_UNFIT_FIELDS: Final = CONNECTION_FIELDS | LOOKALIKE_FIELDS
_NO_FIELDS: Final[Headers] = ()
_LENGTH_END: Final = 10**18
"""No length has more digits than our readers take."""


def encode_request_head(
    method: str,
    target: str,
    headers: Headers,
    framing: Framing = NO_BODY,
    *,
    close: bool = False,
    upgrade: tuple[str, ...] = (),
    expect_continue: bool = False,
) -> bytes:
    """Write a request head. Raises WireError (500) where any part of it must not be sent."""
    line = f"{method} {target} HTTP/1.1\r\n"
    if REQUEST_LINE.fullmatch(line) is None:
        raise _unfit_error("The request line to be sent is malformed.")
    _check_target(method, target)
    fields = _check_names(headers)
    if not is_authority(fields.get("host", "")):
        raise _unfit_error("The request to be sent has no valid Host field.")
    if framing.body is Body.CLOSE or (method == "CONNECT" and framing.body is not Body.NONE):
        raise _unfit_error("The request to be sent cannot be framed like this.")
    if framing.body is Body.NONE and "content-length" in fields:
        raise _unfit_error("The request to be sent states a body that it does not have.")
    own = _framing_fields(framing, fields) + _connection_fields(upgrade, close=close)
    if expect_continue:
        own += (("expect", "100-continue"),)
    return _assemble(line, headers + own if own else headers)


def encode_response_head(
    status: int,
    reason: str,
    headers: Headers,
    framing: Framing,
    *,
    method: str,
    close: bool = False,
    upgrade: tuple[str, ...] = (),
) -> bytes:
    """Write the final response to a request with `method`; 101 is final here.

    Raises WireError (500) where any part of it must not be sent, or where `framing` is not what a
    client will assume from `method` and `status`.
    """
    line = _status_line(status, reason)
    fields = _check_names(headers)
    if (status == 101) != (len(upgrade) == 1) or (status < 200 and status != 101):
        raise _unfit_error("An interim response is not a final one.")
    if has_no_body(method, status) != (framing.body is Body.NONE):
        raise _unfit_error("The response to be sent cannot be framed like this.")
    if framing.body is Body.NONE and "content-length" in fields:
        _check_stated(method, status, fields["content-length"])
    own = _framing_fields(framing, fields) + _connection_fields(
        upgrade, close=close or framing.body is Body.CLOSE
    )
    return _assemble(line, headers + own if own else headers)


def encode_informational(status: int, reason: str = "", headers: Headers = ()) -> bytes:
    """Write an interim response (1xx, but not 101)."""
    line = _status_line(status, reason)
    if status > 199 or status == 101 or "content-length" in _check_names(headers):
        raise _unfit_error("The interim response to be sent is none.")
    return _assemble(line, headers)


def encode_trailers(trailers: Headers) -> bytes:
    """Write the trailer section of a chunked body, with the empty line that ends it."""
    for name, _ in trailers:
        if is_forbidden(name):
            raise _unfit_error("A trailer field to be sent belongs in the head.")
    return _assemble("", trailers)


def _assemble(line: str, headers: Headers) -> bytes:
    block = "".join([f"{name}: {value}\r\n" for name, value in headers]) + "\r\n"
    # As many lines as fields: a value that holds a well-formed line of its own is caught by the count.
    if CANONICAL_BLOCK.fullmatch(block) is None or block.count("\n") != len(headers) + 1:
        raise _unfit_error("A header field to be sent contains forbidden bytes.")
    return (line + block).encode("latin-1")


def _status_line(status: int, reason: str) -> str:
    line = f"HTTP/1.1 {status} {reason}\r\n"
    if STATUS_LINE.fullmatch(line) is None or reason != reason.strip(" \t"):
        raise _unfit_error("The status line to be sent is malformed.")
    return line


def _check_target(method: str, target: str) -> None:
    try:
        read_target(method, target)
    except WireError:
        raise _unfit_error("The request target to be sent has no valid form.") from None


def _check_names(headers: Headers) -> dict[str, str]:
    fields = dict(headers)
    if not _UNFIT_FIELDS.isdisjoint(fields):
        raise _unfit_error(
            "A field to be sent belongs to one connection.", "Strip the head before it is written."
        )
    if len(fields) != len(headers):
        names = [name for name, _ in headers]
        if names.count("host") > 1 or names.count("content-length") > 1:
            raise _unfit_error("A field to be sent that must occur once is repeated.")
    return fields


def _check_stated(method: str, status: int, length: str) -> None:
    """A response without a body may state a length only where it tells what a GET would have got."""
    if status != 304 and (method != "HEAD" or status < 200 or status == 204):
        raise _unfit_error("The response to be sent states a body that it cannot have.")
    _read_own_length(length)


def _framing_fields(framing: Framing, fields: dict[str, str]) -> Headers:
    body = framing.body
    if body is Body.NONE:
        return _NO_FIELDS
    length = fields.get("content-length")
    if body is Body.LENGTH:
        if not 0 <= framing.length < _LENGTH_END:
            raise _unfit_error("The Content-Length to be sent is not a plain number.")
        stated = str(framing.length)
        if length is None:
            return (("content-length", stated),)
        if length == stated:
            return _NO_FIELDS
    elif length is None:
        return (("transfer-encoding", "chunked"),) if body is Body.CHUNKED else _NO_FIELDS
    raise _unfit_error("The Content-Length to be sent does not agree with the body.")


def _read_own_length(text: str) -> None:
    try:
        read_length(text)
    except WireError:
        raise _unfit_error("The Content-Length to be sent is not a plain number.") from None


def _connection_fields(upgrade: tuple[str, ...], *, close: bool) -> Headers:
    if not upgrade:
        return (("connection", "close"),) if close else _NO_FIELDS
    own = (("connection", "close, upgrade" if close else "upgrade"), ("upgrade", ", ".join(upgrade)))
    try:
        read_back = upgrade_protocols(own, ("upgrade",))
    except WireError:
        read_back = ()
    if read_back != upgrade:
        raise _unfit_error("The protocol to be asked for is no token.")
    return own


def _unfit_error(message: str, hint: str = "") -> WireError:
    # Not the peer's fault: what we were about to send is ours to answer for.
    return WireError(message, hint, status=500)
