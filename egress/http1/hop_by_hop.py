"""Fields that belong to one connection, and how they are taken off before a head goes on.

What may not travel: Connection and everything it nominates, Keep-Alive, TE, Transfer-Encoding,
Upgrade, HTTP2-Settings, and every name that begins with `proxy-`.

- Framing, closing and upgrading are arguments of the writers, which spell these fields themselves
  and refuse them among the headers. A head that was not stripped can therefore not be sent.
- TE is dropped, `trailers` included: it would have to be nominated again for the next connection,
  and what it asks for is permission that senders of trailers do not wait for.
- Expect is dropped: the writers add it where the caller asks for it.
- Trailer stays. It describes the message, and what it announces is checked when it arrives.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from egress.errors import WireError
from egress.http1.grammar import TOKEN
from egress.types import Headers

# The writers refuse these among the headers they are given: they alone spell them.
CONNECTION_FIELDS: Final = frozenset(
    {"connection", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade", "expect"}
)
HOP_BY_HOP_FIELDS: Final = CONNECTION_FIELDS | {"http2-settings"}

# Nominating one of these would make us drop what routes or frames the message.
_NEVER_NOMINATED_FIELDS: Final = frozenset({"host", "content-length"})

_COMMON_OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    value: (value.lower(),) for value in ("keep-alive", "Keep-Alive", "close", "Close", "upgrade", "Upgrade")
}


def connection_options(headers: Headers, fields: Mapping[str, str]) -> tuple[str, ...]:
    """Return what Connection lists, lower case and in order; `fields` are the same headers by name.

    Raises WireError where an element is no token, or nominates Host or Content-Length.
    """
    value = fields.get("connection")
    if value is None:
        return ()
    if value in _COMMON_OPTIONS and len(fields) == len(headers):
        return _COMMON_OPTIONS[value]
    options = tuple(_elements([value for name, value in headers if name == "connection"]))
    for option in options:
        if TOKEN.fullmatch(option) is None:
            raise WireError("The Connection field is malformed.")
        if option in _NEVER_NOMINATED_FIELDS:
            raise WireError("The Connection field nominates Host or Content-Length.")
    return options


def upgrade_protocols(headers: Headers, options: tuple[str, ...]) -> tuple[str, ...]:
    """Return the protocols of Upgrade, lower case; none where Connection does not nominate it."""
    if "upgrade" not in options:
        return ()
    protocols = tuple(_elements([value for name, value in headers if name == "upgrade"]))
    for protocol in protocols:
        name, slash, version = protocol.partition("/")
        if TOKEN.fullmatch(name) is None or (slash and TOKEN.fullmatch(version) is None):
            raise WireError("The Upgrade field is malformed.")
    return protocols


def strip_hop_by_hop(headers: Headers) -> Headers:
    """Return the fields that travel on: no hop-by-hop field, and none that Connection nominates.

    Call it before anything is injected: a sandbox that nominates `authorization` then takes away
    only its own value. Raises WireError where Connection is malformed.
    """
    return without_fields(headers, names_to_strip(headers, dict(headers)))


def names_to_strip(
    headers: Headers, fields: Mapping[str, str], gone: frozenset[str] = HOP_BY_HOP_FIELDS
) -> frozenset[str]:
    """Return the names of all fields that do not travel on; `fields` are the same headers by name.

    `gone` are those that never do. Raises WireError where Connection is malformed.
    """
    nominated = connection_options(headers, fields)
    if not gone.issuperset(nominated):
        gone = gone.union(nominated)
    if "proxy-" in "\n".join(fields):
        gone = gone.union([name for name in fields if name.startswith("proxy-")])
    return gone


def without_fields(headers: Headers, gone: frozenset[str]) -> Headers:
    """Return the fields whose names are not among `gone`."""
    return tuple([field for field in headers if field[0] not in gone])


def _elements(values: list[str]) -> list[str]:
    elements = [element.strip(" \t").lower() for value in values for element in value.split(",")]
    return [element for element in elements if element]
