"""A connection on its way through the ingress: its client, its requested destination, or its refusal.

Values only. A refusal is a value with a code, as everywhere, and never an exception.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from egress.http1 import RequestHead
from egress.proxy.ingress.client_stream import ClientStream
from egress.proxy.ingress.limits import IngressLimits
from egress.proxy.ingress.listener import Listener
from egress.proxy.lanes.connection import DestinationSource
from egress.tls.client_hello import ClientHello
from egress.types import HostDecision, Identity, Scheme

SpokenProtocol = Literal["", "http", "tls"]
"""The protocol of a refusal: an HTTP page, a TLS alert, or neither while the protocol is unknown."""


@dataclass(frozen=True, slots=True)
class RequestedDestination:
    """A destination in its canonical spelling, not decided about yet."""

    entry: DestinationSource
    schemes: tuple[Scheme, ...]
    """The possible schemes, in order of preference; the first that is allowed counts."""
    host: str
    port: int
    hello: ClientHello | None = None

    def refused(self, code: str) -> IngressRefusal:
        """Return the refusal of this destination before any decision."""
        return IngressRefusal(code, self.entry, self.host, self.port)


@dataclass(frozen=True, slots=True)
class IngressRefusal:
    """The reason why a connection ends in the ingress."""

    code: str
    entry: DestinationSource | Literal[""] = ""
    """Empty if the client did not name a destination."""
    host: str = ""
    """The canonical name, or an escaped excerpt of the bytes in its place."""
    port: int = 0
    decision: HostDecision | None = None
    status: int | None = None
    """The status, if it differs from that of the code: some faults of a head have their own."""
    retry_after: int = 0
    sni: str = ""


@dataclass(slots=True)
class PendingConnection:
    """The client, its listener, and the facts known so far."""

    id: str
    listener: Listener
    identity: Identity
    client: ClientStream
    bounds: IngressLimits
    started: float
    speaks: SpokenProtocol = ""
    head: RequestHead | None = None
    """The last request head that was read; it shapes the page of a refusal."""
    peer: str = ""
    """The address of the client, where several clients share the listener."""
    fault: str = ""
    """Why the peer has no rights at all; empty if it has."""
    asked: RequestedDestination | None = None
    """The requested destination, once known; a refusal is recorded with it."""
