"""Limits of relays: bounds on time and memory, and the stall timer. Pure.

What a relay takes of the process, it takes of the share of its sandbox: see `egress.shares.pool`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from egress.relay.exchange_stream import ExchangeStream
from egress.shares.pool import SharePool

MAX_WIRES: Final = 100
"""Upstream connections of a client connection: as many as its HTTP/2 streams."""
_RESTING_LOOKS: Final = 6
"""Looks at an idle connection until its time is over."""
MIN_WINDOW_BYTES: Final = 65_535
"""The window that HTTP/2 gives every connection from the start."""


@dataclass(frozen=True, slots=True)
class RelayLimits:
    """Bounds on time, in seconds, on memory, and on what is taken for complete."""

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
    """Waiting of an exchange for a connection while its sandbox has used up its share."""
    upstream_idle: float = 30.0
    """Keeping an idle upstream connection for another exchange."""
    discarded: int = 64 * 1024
    """Bytes of a refused request's body that are read and dropped."""
    strict_tls_end: bool = False
    """A body that runs to the end of its connection counts as cut if TLS ends without close_notify."""
    pool: SharePool | None = None
    """The resources that the relays of all sandboxes share; None gives the relay its own."""

    @property
    def rest_tick(self) -> float:
        """Seconds between two looks at the times of a relay that rests: its connections end so much later."""
        return min(self.keep_alive, self.upstream_idle) / _RESTING_LOOKS


# An exchange has no clock, so its progress is told by a counter.
class StallTimer:
    """Measures for how long a counter has stood still."""

    def __init__(self, now: float) -> None:
        self._count = -1
        self._since = now

    def restart(self, now: float) -> None:
        """Restart the timer: the exchange has made progress."""
        self._since = now

    def quiet_seconds(self, count: int, now: float) -> float:
        """Return for how many seconds the count has been this one."""
        if count != self._count:
            self._count, self._since = count, now
        return now - self._since

    def abort_if_stalled(
        self, stream: ExchangeStream, now: float, limits: RelayLimits, *, held: bool
    ) -> None:
        """End an exchange that has stood still for too long; `held`: we hold the client back."""
        quiet = self.quiet_seconds(stream.progress, now)
        if stream.is_answered:
            if quiet > limits.silence:
                stream.abort("upstream.timeout")
        elif stream.waits_for_client and not held:
            if quiet > limits.request_body:
                stream.abort("request.timeout")
        elif quiet > limits.response_head:
            stream.abort("upstream.timeout")
