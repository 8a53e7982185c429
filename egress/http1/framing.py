"""Which body follows a head. This is the decision that request smuggling attacks.

Content-Length is a plain number, once. Transfer-Encoding is the one word `chunked`, once, and never with
HTTP/1.0. Both together are refused in either direction: whichever we chose, the next parser might
choose the other.

A mercy for servers: `Content-Length: 0` on 1xx and 204, which real servers send although they must
not, is read as if it were absent. Any other length there is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from egress.errors import WireError
from egress.http1.events import CHUNKED, NO_BODY, UNTIL_CLOSE, Body, Framing

# Eighteen digits fit a signed 64-bit number everywhere behind us. A leading zero is read as octal by some.
_LENGTH_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,17}+")

SINGLE_FIELDS: Final = ("content-length", "transfer-encoding")


def stated_framing(fields: Mapping[str, str], version: str) -> Framing:
    """Read what Content-Length and Transfer-Encoding state; `NO_BODY` where neither is there.

    Repeated fields must have been refused before.
    """
    coding = fields.get("transfer-encoding")
    length = fields.get("content-length")
    if coding is not None:
        if length is not None:
            raise WireError("The head has both Content-Length and Transfer-Encoding.", "Send one of them.")
        return _read_coding(coding, version)
    return NO_BODY if length is None else Framing(Body.LENGTH, read_length(length))


def read_length(text: str) -> int:
    """Read the value of Content-Length."""
    if _LENGTH_NUMBER.fullmatch(text) is None:
        raise WireError("Content-Length is not a plain number.")
    return int(text)


def _read_coding(coding: str, version: str) -> Framing:
    if version != "1.1":
        raise WireError("HTTP/1.0 has no Transfer-Encoding.")
    if coding.lower() != "chunked":
        raise WireError("The transfer coding is not `chunked`.", "Send a plain chunked body.", status=501)
    return CHUNKED


def has_no_body(method: str, status: int) -> bool:
    """Tell whether a response to `method` with `status` ends with its head, whatever its fields say.

    205 is framed by its fields like any other: RFC 9112 makes no exception for it, so neither do
    clients.
    """
    return method == "HEAD" or status in (204, 304) or status < 200 or (method == "CONNECT" and status < 300)


def response_framing(fields: Mapping[str, str], version: str, method: str, status: int) -> Framing:
    """Decide the body of a response to a request with `method`."""
    stated = stated_framing(fields, version)
    if has_no_body(method, status):
        if (status < 200 or status == 204) and stated != NO_BODY and stated != Framing.sized(0):
            raise WireError("A response that cannot have a body states one.")
        return NO_BODY
    return UNTIL_CLOSE if stated is NO_BODY else stated
