"""How long a peer may be silent, and how much may wait, before an exchange is ended."""

from __future__ import annotations

from dataclasses import dataclass

from egress.relay.budget import Budgets


@dataclass(frozen=True, slots=True)
class RelayLimits:
    """Bounds on time, in seconds, and on memory."""

    head: float = 15.0
    """From the first byte of a request head to its last."""
    keep_alive: float = 120.0
    """Between two requests of a client connection."""
    request_body: float = 60.0
    """Without a byte of a request body that is still to come."""
    response_head: float = 300.0
    """From a request that is complete to the head of its response."""
    silence: float = 900.0
    """Without a byte in either direction while a response, or a WebSocket, is under way."""
    linger: float = 2.0
    """For a client to read a refusal before the connection closes."""
    upstream_wait: float = 30.0
    """That an exchange waits for a connection while its sandbox has all that it may have."""
    upstream_idle: float = 30.0
    """That an upstream connection is kept for another exchange."""
    discarded: int = 64 * 1024
    """Bytes of a refused request's body that are read and dropped."""
    budgets: Budgets | None = None
    """What the relays of all sandboxes share; without it, each has some of its own."""
