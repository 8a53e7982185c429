"""The request half: from a head off the wire to a `Head` that can be decided and sent.

Everything that makes a request ambiguous is refused here, before any rule is asked: a Host that is
not the destination, an upgrade that is no WebSocket, a length that is no number. Fields of the
connection, and what the sandbox nominates beside them, go before the rules look and before anything
is injected. Method and target are left to the rules.
"""

from __future__ import annotations

import ipaddress
import re

from egress.errors import WireError
from egress.exchange.fields import Fields
from egress.exchange.values import Deny, Destination, Request
from egress.http1.connection import HOP_BY_HOP
from egress.rules import hosts
from egress.types import Head

_NOT_KEPT = HOP_BY_HOP | {"host"}
_AUTHORITY = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[^\[\]:@/?#\\\s]{1,255})(?::([0-9]{1,5}))?")


def head_of(request: Request, destination: Destination) -> tuple[Head, int] | Deny:
    """The head that rules decide on, with Host set to the destination, and the stated length of its body.

    Or why there is none.
    """
    try:
        fields = Fields(request.headers)
        kept = fields.travelling(_NOT_KEPT)
    except WireError:
        named = [value for name, value in request.headers if name == "host"]
        return _authority_denial(request, named, destination) or Deny("request.malformed")
    if (denied := _authority_denial(request, fields.values("host"), destination)) is not None:
        return denied
    if request.upgrade and (denied := _upgrade_denial(request, fields)) is not None:
        return denied
    head = Head(
        request.method,
        destination.scheme,
        destination.host,
        destination.port,
        request.target,
        (("host", destination.authority), *kept),
        bool(request.upgrade),
    )
    return head, fields.length or 0


def names(destination: Destination, authority: str) -> bool:
    """Whether an authority off the wire is the destination. Case and one trailing dot are spelling."""
    if authority == destination.authority:
        return True
    match = _AUTHORITY.fullmatch(authority.lower()) if authority.isascii() else None
    if match is None:
        return False
    port = int(match[2]) if match[2] else destination.default_port
    return port == destination.port and _canonical(match[1]) == destination.host


def _authority_denial(request: Request, named: list[str], destination: Destination) -> Deny | None:
    """Why the request does not name just this destination; `named` are the values of its Host fields."""
    if len(named) > 1 or not (named or request.authority):
        return Deny("request.malformed")
    if request.authority:
        named.append(request.authority)
    authority = destination.authority
    for each in named:
        if each != authority and not names(destination, each):
            return Deny("request.mismatch")
    if request.scheme and request.scheme.lower() != destination.scheme:
        return Deny("request.mismatch")
    return None


def _upgrade_denial(request: Request, fields: Fields) -> Deny | None:
    if request.upgrade != ("websocket",):
        return Deny("request.upgrade")
    # Behind a switch of protocols there is no telling a body from frames.
    has_body = fields.length or fields.values("transfer-encoding")
    return Deny("request.malformed") if has_body or request.method != "GET" else None


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


def forwarded(head: Head, target: str) -> Head:
    """The head with the target that was matched."""
    if target == head.target:
        return head
    return Head(head.method, head.scheme, head.host, head.port, target, head.headers, head.websocket)
