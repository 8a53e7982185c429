"""The request half: from a head off the wire to a `Head` that can be decided and sent.

Everything that makes a request ambiguous is refused here, before any rule is asked: a Host that is
not the destination, an upgrade that is no WebSocket, fields nominated away.
"""

from __future__ import annotations

import ipaddress
import re

from egress.errors import WireError
from egress.exchange.values import Deny, Destination, Request
from egress.http1.connection import strip_hop_by_hop
from egress.rules import hosts
from egress.types import Head, Headers

_AUTHORITY = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[^\[\]:@/?#\\\s]{1,255})(?::([0-9]{1,5}))?")


def head_of(request: Request, destination: Destination) -> Head | Deny:
    """The head that rules decide on, with Host set to the destination; or why there is none."""
    named = [value for name, value in request.headers if name == "host"]
    if request.authority:
        named.append(request.authority)
    if not named or len(named) - bool(request.authority) > 1:
        return Deny("request.malformed")
    if any(not names(destination, authority) for authority in named):
        return Deny("request.mismatch")
    if request.upgrade not in ((), ("websocket",)):
        return Deny("request.upgrade")
    try:
        kept = strip_hop_by_hop(request.headers)
    except WireError:
        return Deny("request.malformed")
    headers: Headers = (("host", destination.authority), *[field for field in kept if field[0] != "host"])
    return Head(
        request.method,
        destination.scheme,
        destination.host,
        destination.port,
        request.target,
        headers,
        websocket=bool(request.upgrade),
    )


def names(destination: Destination, authority: str) -> bool:
    """Whether an authority off the wire is the destination. Case and one trailing dot are spelling."""
    match = _AUTHORITY.fullmatch(authority.lower() if authority.isascii() else "")
    if match is None:
        return False
    port = int(match[2]) if match[2] else (443 if destination.scheme == "https" else 80)
    return port == destination.port and _canonical(match[1]) == destination.host


def _canonical(host: str) -> str | None:
    try:
        if host.startswith("["):
            return str(ipaddress.IPv6Address(host[1:-1]))
        return hosts.canonical_wire(host)
    except hosts.HostError:
        return _ipv4(host)
    except ValueError:
        return None


def _ipv4(host: str) -> str | None:
    try:
        return str(ipaddress.IPv4Address(host))
    except ValueError:
        return None
