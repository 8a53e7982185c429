"""Inside a CONNECT: what the client says first must be what the tunnel was opened for, to that host.

Where the destination is spoken to by TLS, that is a ClientHello which names the host or none; where
it is plain HTTP, a request whose Host is the destination. Anything else ends here: nothing of it has
been relayed, and nothing has been dialled.
"""

from __future__ import annotations

from dataclasses import dataclass

from egress.exchange import Destination
from egress.http1 import RequestHead
from egress.proxy.clienthello import ClientHello, looks_like_tls
from egress.proxy.destination import read_authority
from egress.proxy.reading import begins_http, read_first, read_head, read_hello
from egress.proxy.visit import Refused, Visit


@dataclass(frozen=True, slots=True)
class Opened:
    """The tunnel carries what it was opened for."""

    hello: ClientHello | None = None


async def look_inside(visit: Visit, destination: Destination) -> Opened | Refused | None:
    """Look at the first message inside a tunnel to `destination`; it stays with the client."""
    visit.speaks, visit.head = "", None
    first = await read_first(visit)
    if not isinstance(first, int):
        return first
    if destination.scheme == "https" and looks_like_tls(first):
        return _tls(await read_hello(visit), destination)
    if destination.scheme == "http" and begins_http(first):
        return _plain(await read_head(visit), destination)
    return Refused("protocol.refused")


def _tls(hello: ClientHello | Refused | None, destination: Destination) -> Opened | Refused | None:
    if not isinstance(hello, ClientHello):
        return hello
    if hello.sni and hello.sni != destination.host:
        return Refused("request.mismatch", sni=hello.sni)
    return Opened(hello)


def _plain(head: RequestHead | Refused | None, destination: Destination) -> Opened | Refused | None:
    if not isinstance(head, RequestHead):
        return head
    if head.form not in ("origin", "asterisk"):
        return Refused("request.malformed")
    if read_authority(head.host, 80) != (destination.host, destination.port):
        return Refused("request.mismatch")
    return Opened()
