"""Heads to bytes, in the one spelling that our own readers read back unchanged.

Everything is checked again here, whoever filled it in: a value with CR, LF or NUL cannot be written.
The check is made on the bytes about to be sent, so there is nothing between it and the wire.

Framing, closing, upgrading and expecting are arguments. Fields that would say the same a second time
are refused among the headers (see `connection`); Content-Length alone may stand there, where it
agrees with the framing.
"""

from __future__ import annotations

from typing import Final

from egress.errors import WireError
from egress.http1.events import NO_BODY, Body, Framing
from egress.http1.field_block import LOOKALIKE_FIELDS
from egress.http1.framing import has_no_body, read_length
from egress.http1.grammar import CANONICAL_BLOCK, REQUEST_LINE, STATUS_LINE
from egress.http1.head_parser import is_authority, read_target
from egress.http1.hop_by_hop import CONNECTION_FIELDS, upgrade_protocols
from egress.http1.trailers import is_forbidden
from egress.types import Headers

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
            raise _unfit_error("A trailer field to be sent belongs into the head.")
    return _assemble("", trailers)


def _assemble(line: str, headers: Headers) -> bytes:
    block = "".join([f"{name}: {value}\r\n" for name, value in headers]) + "\r\n"
    # As many lines as fields: a value that holds a well-formed line of its own is caught by the count.
    if CANONICAL_BLOCK.fullmatch(block) is None or block.count("\n") != len(headers) + 1:
        raise _unfit_error("A header field to be sent holds what must not be sent.")
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
            raise _unfit_error("A field to be sent is repeated that must stand alone.")
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
