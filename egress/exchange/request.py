"""The request half: from a head off the wire to a `Head` that can be decided and sent.

Everything that makes a request ambiguous is refused here, before any rule is asked: a Host that is
not the destination, an upgrade that is no WebSocket, a length that is no number. Fields of the
connection, and what the sandbox nominates beside them, go before the rules look and before anything
is injected. Method and target are left to the rules.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Final

from egress.credentials import CanaryScan, Placeholders
from egress.errors import WireError
from egress.exchange.messages import DenyRequest, Destination, Request
from egress.http1.fields import HOP_BY_HOP_FIELDS, CheckedFields
from egress.rules.decide.paths import MAX_PATH_BYTES
from egress.rules.language import hosts
from egress.run_ticket import mask_tickets
from egress.scrub import Needles
from egress.types import Effects, Head, Headers, InjectPlaceholder, Slot

_DROPPED_FIELDS = HOP_BY_HOP_FIELDS | {"host"}
_AUTHORITY_PATTERN = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[^\[\]:@/?#\\\s]{1,255})(?::([0-9]{1,5}))?")
_METHOD_PATTERN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}+")
ACCEPT_FIELDS = frozenset(
    {
        "accept-encoding",
        "grpc-accept-encoding",
        "connect-accept-encoding",
        "accept-charset",
        "a-im",  # differences against an older version, and compression by another name
        "sec-websocket-extensions",  # permessage-deflate
    }
)
_PLAIN_FIELD = ("accept-encoding", "identity")


def decidable_head(request: Request, destination: Destination) -> tuple[Head, int] | DenyRequest:
    """Return the head that rules decide on, with Host set to the destination, and the stated body length.

    Returns the denial if the request is ambiguous.
    """
    try:
        fields = CheckedFields(request.headers)
        kept = fields.end_to_end(_DROPPED_FIELDS)
    except WireError:
        named = [value for name, value in request.headers if name == "host"]
        return _authority_denial(request, named, destination) or DenyRequest("request.malformed")
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


def names_destination(destination: Destination, authority: str) -> bool:
    """Tell whether an authority off the wire is the destination. Case and one trailing dot are spelling."""
    if authority == destination.authority:
        return True
    match = _AUTHORITY_PATTERN.fullmatch(authority.lower()) if authority.isascii() else None
    if match is None:
        return False
    port = int(match[2]) if match[2] else destination.default_port
    return port == destination.port and _canonical(match[1]) == destination.host


def _authority_denial(request: Request, named: list[str], destination: Destination) -> DenyRequest | None:
    """Say why the request does not name just this destination; `named` are the values of its Host fields."""
    # Servers disagree about which of two Host fields counts.
    if len(named) > 1 or not (named or request.authority):
        return DenyRequest("request.malformed")
    if request.authority:
        named.append(request.authority)
    authority = destination.authority
    # Each authority must agree, because a server may route by any of them (domain fronting).
    for each in named:
        if each != authority and not names_destination(destination, each):
            return DenyRequest("request.mismatch")
    if request.scheme and request.scheme.lower() != destination.scheme:
        return DenyRequest("request.mismatch")
    return None


def _upgrade_denial(request: Request, fields: CheckedFields) -> DenyRequest | None:
    if request.upgrade != ("websocket",):
        return DenyRequest("request.upgrade")
    # After a switch of protocols a body cannot be told from frames.
    has_body = fields.length or fields.values("transfer-encoding")
    return DenyRequest("request.malformed") if has_body or request.method != "GET" else None


def _canonical(host: str) -> str | None:
    try:
        if host.startswith("["):
            return str(ipaddress.IPv6Address(host[1:-1]))
        return hosts.canonical_wire_host(host)
    except hosts.HostError:
        return _ipv4(host)
    except ValueError:
        return None


def _ipv4(host: str) -> str | None:
    try:
        return str(ipaddress.IPv4Address(host))
    except ValueError:
        return None


def head_with_target(head: Head, target: str) -> Head:
    """Return the head with the target that the rules matched."""
    if target == head.target:
        return head
    return Head(head.method, head.scheme, head.host, head.port, target, head.headers, head.websocket)


def head_with_length(head: Head, length: int) -> Head:
    """Return the head with the length of a body that was written anew."""
    kept = tuple([field for field in head.headers if field[0] not in ("content-length", "transfer-encoding")])
    headers = (*kept, ("content-length", str(length)))
    return Head(head.method, head.scheme, head.host, head.port, head.target, headers, head.websocket)


# A search that misses the value just injected would miss it in the response too, so it is tried on the
# head that goes up, slot by slot. Only these slots are searched: a value elsewhere is the sandbox's own.
_HEADER_OF_SLOT: Final = {"cookie": "cookie", "basic": "authorization"}


def can_find_injected(needles: Needles | None, written: tuple[tuple[str, Slot], ...], head: Head) -> bool:
    """Tell whether the needles find every injected secret in its slot of the head to be sent."""
    for secret, slot in written:
        text = "\n".join(_slot_texts(slot, head))
        if needles is None or not needles.finds_secret(secret, text.encode("latin-1", "replace")):
            return False
    return True


def _slot_texts(slot: Slot, head: Head) -> list[str]:
    """Return the texts of the head that such a slot covers."""
    if slot.kind in ("path", "query"):
        return [head.target]
    name = slot.name.lower() if slot.kind == "header" else _HEADER_OF_SLOT[slot.kind]
    return [value for each, value in head.headers if each == name]


def asking_for_plain(headers: Headers) -> Headers:
    """Return the fields with a request for plain contents, in every dialect that could ask for others."""
    return (*[field for field in headers if field[0] not in ACCEPT_FIELDS], _PLAIN_FIELD)


def needed_secrets(effects: Effects, placeholders: Placeholders, head: Head) -> tuple[str, ...]:
    """Return the secrets that this request needs: that of a placeholder only if the placeholder is there."""
    needed: dict[str, None] = {}
    seen: set[str | None] | None = None
    for need in effects.needs:
        if isinstance(need, InjectPlaceholder):
            if seen is None:
                seen = {sighting.secret for sighting in placeholders.find(head)}
            if need.secret not in seen:
                continue
        needed[need.secret] = None
    return tuple(needed)


def shown_method(method: str, canaries: CanaryScan | None = None) -> str:
    """Return the method for the record, with the canaries of `canaries` masked; empty if it is no token.

    An HTTP/2 client can write a whole URL there.
    """
    if not _METHOD_PATTERN.fullmatch(method):
        return ""
    return method if canaries is None else canaries.masked(method)


def shown_path(target: str, canaries: CanaryScan | None = None) -> str:
    """Return the path of a target for the record, without query and fragment, its canaries masked."""
    # A query or fragment may carry a credential, which a record must not keep.
    path = mask_tickets(target.partition("?")[0].partition("#")[0])
    return (path if canaries is None else canaries.masked(path))[:MAX_PATH_BYTES]
