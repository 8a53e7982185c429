"""Whether an exchange still moves; told by what it counts, since there is no clock in it."""

from __future__ import annotations

from egress.relay.limits import RelayLimits
from egress.relay.stream import Stream


class Stall:
    """Since when a count has stood still."""

    def __init__(self, now: float) -> None:
        self._count = -1
        self._since = now

    def moved(self, now: float) -> None:
        """It moves."""
        self._since = now

    def quiet(self, count: int, now: float) -> float:
        """For how many seconds the count has been this one."""
        if count != self._count:
            self._count, self._since = count, now
        return now - self._since

    def judge(self, stream: Stream, now: float, limits: RelayLimits, *, held: bool) -> None:
        """End an exchange that has stood still for too long; `held` says that we hold the client back."""
        quiet = self.quiet(stream.moves, now)
        if stream.is_answered:
            if quiet > limits.silence:
                stream.abort("upstream.timeout")
        elif stream.waits_for_client and not held:
            if quiet > limits.request_body:
                stream.abort("request.timeout")
        elif quiet > limits.response_head:
            stream.abort("upstream.timeout")
