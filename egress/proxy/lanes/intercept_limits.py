"""How long each stage of an intercepted connection may take."""

from __future__ import annotations

from dataclasses import dataclass, field

from egress.relay.limits import RelayLimits


@dataclass(frozen=True, slots=True)
class InterceptLimits:
    """Time-outs of the stages of an intercepted connection, in seconds."""

    client_tls: float = 15.0
    """The TLS handshake with the client."""
    dial: float = 15.0
    """Resolving the name and connecting."""
    upstream_open: float = 30.0
    """Resolving, connecting and the TLS handshake with the upstream."""
    secrets: float = 30.0
    """Resolving secrets; a second bound, should the resolver miss its own deadline."""
    closing: float = 10.0
    """Sending the last bytes on a connection that is being closed."""
    relay: RelayLimits = field(default_factory=RelayLimits)
