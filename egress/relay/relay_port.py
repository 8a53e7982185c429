"""The relay as its halves use it.

The relay makes the halves and the halves call the relay: these protocols break the import cycle, and show how
little the halves need.
"""

from __future__ import annotations

from typing import Protocol

from egress.exchange import Destination, Request
from egress.http1 import Framing
from egress.relay.exchange_stream import ExchangeStream
from egress.relay.limits import RelayLimits
from egress.relay.ports import DownstreamHalf, RelayEnvironment, RelayOrder
from egress.shares.pool import ShareAccount


class UpstreamConnection(Protocol):
    """A connection to the upstream, as far as it is kept or closed."""

    @property
    def wire(self) -> int: ...


class UpstreamConnections(Protocol):
    """Keeps the upstream connections."""

    def acquire(self, stream: ExchangeStream) -> None:
        """Find a connection for this exchange, now or later."""
        ...

    def freed(self, upstream: UpstreamConnection) -> None:
        """This connection can carry another exchange."""
        ...

    def drop(self, upstream: UpstreamConnection) -> None:
        """Close this connection."""
        ...


class RelayPort(Protocol):
    """The relay, as its halves see it."""

    @property
    def service(self) -> RelayEnvironment: ...

    @property
    def destination(self) -> Destination: ...

    @property
    def limits(self) -> RelayLimits: ...

    @property
    def account(self) -> ShareAccount: ...

    @property
    def is_draining(self) -> bool: ...

    @property
    def upstreams(self) -> UpstreamConnections: ...

    def order(self, order: RelayOrder) -> None:
        """Add an order."""
        ...

    def write(self, wire: int, data: bytes) -> None:
        """Send bytes."""
        ...

    def close(self, wire: int) -> None:
        """Close a wire; closing the client's ends all exchanges and upstream connections."""
        ...

    def hand_back(self, request: bytes) -> None:
        """Serve the client no more: this request of it is for another destination."""
        ...

    def received_ahead(self, wire: int, data: bytes) -> None:
        """Take bytes that came ahead of a switch like bytes that come after it."""
        ...

    def reset(self, wire: int) -> None:
        """Close a wire in a way that the peer notices."""
        ...

    def stream(self, client: DownstreamHalf, request: Request, framing: Framing) -> ExchangeStream:
        """Begin to keep an exchange of the client."""
        ...

    def go_on_later(self, stream: ExchangeStream) -> None:
        """Let an exchange go on in another turn."""
        ...

    def record_written(self, stream: ExchangeStream) -> None:
        """Give back the share of an exchange that has its record."""
        ...

    def refused(self, code: str) -> str:
        """Record a request without an exchange, such as an unreadable one; return its id."""
        ...
