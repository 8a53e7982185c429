"""What the handlers of the full lane share, as each of them sees it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Protocol

from mitmproxy.options import Options

from egress.addons.guard import HookGuard
from egress.addons.tls_hooks import TlsHooks
from egress.proxy.lanes.connection import AdmittedConnection
from egress.proxy.lanes.dial import ConnectedSocket
from egress.relay.limits import RelayLimits
from egress.rules.decide.policy import Policy


@dataclass(frozen=True, slots=True)
class InterceptLimits:
    """How long the stages of an intercepted connection may take, in seconds."""

    client_tls: float = 15.0
    """The TLS handshake with the client."""
    dial: float = 15.0
    """Resolving the name and connecting."""
    upstream_open: float = 30.0
    """The same, with the TLS handshake of the upstream."""
    secrets: float = 30.0
    """Getting secrets; the resolver has a deadline of its own, and this is for when it is not kept."""
    closing: float = 10.0
    """For a peer to take what is still to be sent on a connection that is being closed."""
    relay: RelayLimits = field(default_factory=RelayLimits)


class InterceptServices(Protocol):
    """What the handlers of a lane share."""

    @property
    def guard(self) -> HookGuard: ...

    @property
    def tls(self) -> TlsHooks: ...

    @property
    def options(self) -> Options: ...

    @property
    def limits(self) -> InterceptLimits: ...

    async def dial(self, arrival: AdmittedConnection) -> ConnectedSocket:
        """Connect to the destination, at an address that was checked."""
        ...

    def still_allows(
        self, arrival: AdmittedConnection, policy: Policy, now: int, addresses: Collection[str] = ()
    ) -> bool:
        """Whether this policy would let the connection be made now, in this lane, to these addresses."""
        ...
