"""One connection on its way through the door: who came, where it wants to go, or why it may not.

Values only. A refusal is a value with a code, as everywhere; there is no exception for it.
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
"""What an answer has to be written in: a page, an alert, or nothing while nobody knows."""


@dataclass(frozen=True, slots=True)
class RequestedDestination:
    """A destination in its canonical spelling, not decided about yet."""

    entry: DestinationSource
    schemes: tuple[Scheme, ...]
    """What may be spoken there, in order of preference; the first that is allowed counts."""
    host: str
    port: int
    hello: ClientHello | None = None

    def refused(self, code: str) -> IngressRefusal:
        """This destination, refused before it was decided about."""
        return IngressRefusal(code, self.entry, self.host, self.port)


@dataclass(frozen=True, slots=True)
class IngressRefusal:
    """Why a connection ends at the door."""

    code: str
    entry: DestinationSource | Literal[""] = ""
    """Empty where the client did not get as far as naming a destination."""
    host: str = ""
    """Canonical, or an escaped excerpt of what stood there."""
    port: int = 0
    decision: HostDecision | None = None
    status: int | None = None
    """Another status than that of the code: some faults of a head have their own."""
    retry_after: int = 0
    sni: str = ""


@dataclass(slots=True)
class PendingConnection:
    """Who came, by which listener, and what is known of the client so far."""

    id: str
    listener: Listener
    identity: Identity
    client: ClientStream
    bounds: IngressLimits
    started: float
    speaks: SpokenProtocol = ""
    head: RequestHead | None = None
    """The last request head that was read; a refusal is put in words by it."""
    asked: RequestedDestination | None = None
    """Where it wants to go, once that is known; a refusal is recorded with it."""
