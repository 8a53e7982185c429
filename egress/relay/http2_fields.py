"""The header fields of an HTTP/2 message, checked as RFC 9113 wants them.

The library can check them as well, but it looks at each character on its own: 3 ms of the event loop for a
head that a peer makes of thirty bytes. So its check is off, and this one searches whole heads at once.
`tests/property/test_http2_fields.py` proves that it refuses whatever the library's check does.
"""

from __future__ import annotations

import re
from typing import Final, Literal

from h2.exceptions import ProtocolError

from egress.types import Headers

MessagePart = Literal["request", "response", "trailers"]

_NAMES: Final = re.compile(r"(?:[\x21-\x39\x3b-\x40\x5b-\x7e]++\n)*+")
_EDGE_SPACE: Final = re.compile(r"(?:\A|\n)[ \t]|[ \t](?:\n|\Z)")
_REQUEST_PSEUDO: Final = frozenset({":method", ":scheme", ":path", ":authority", ":protocol"})
_CONNECTION_FIELDS: Final = frozenset(
    {"connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade"}
)
_FIELDS_TO_LOOK_AT: Final = _CONNECTION_FIELDS | {"te", "host"}


def check_fields(fields: Headers, part: MessagePart) -> None:
    """Check a head or trailers. Raises `ProtocolError`, which quotes nothing."""
    pseudo: dict[str, str] = {}
    for name, value in fields:
        if name[:1] != ":":
            break
        if name in pseudo:
            raise ProtocolError("a pseudo-header field is repeated")
        pseudo[name] = value
    rest = fields[len(pseudo) :]
    # Joined by a character that none of them may hold, all names and all values are searched in one go.
    if _NAMES.fullmatch("".join([f"{name}\n" for name, _ in rest])) is None:
        raise ProtocolError("a field name is malformed")
    values = "\n".join([value for _, value in fields])
    if values.count("\n") > max(len(fields) - 1, 0) or "\0" in values or "\r" in values:
        raise ProtocolError("a field value holds a control character")
    if _EDGE_SPACE.search(values) is not None:
        raise ProtocolError("a field value begins or ends with a space")
    hosts = [_checked(name, value) for name, value in rest if name in _FIELDS_TO_LOOK_AT]
    if part == "request":
        _check_request(pseudo, [host for host in hosts if host is not None])
    elif pseudo.keys() != ({":status"} if part == "response" else set()):
        raise ProtocolError("a pseudo-header field is missing, or out of place")


def _checked(name: str, value: str) -> str | None:
    """Check a field that says something about the connection; return what a Host says."""
    if name in _CONNECTION_FIELDS:
        raise ProtocolError("a field belongs to a connection of HTTP/1.1")
    if name == "te" and value.lower() != "trailers":
        raise ProtocolError("TE says something else than trailers")
    return value if name == "host" else None


def _check_request(pseudo: dict[str, str], hosts: list[str]) -> None:
    wanted = {":method", ":scheme", ":path"}
    if not wanted <= pseudo.keys() <= _REQUEST_PSEUDO or not pseudo[":path"]:
        raise ProtocolError("a pseudo-header field is missing, empty, or out of place")
    if ":protocol" in pseudo and pseudo[":method"] != "CONNECT":
        raise ProtocolError("a protocol is asked for without CONNECT")
    names = {*hosts, *([pseudo[":authority"]] if ":authority" in pseudo else [])}
    if len(names) != 1:
        raise ProtocolError("the request names no host, or two")
