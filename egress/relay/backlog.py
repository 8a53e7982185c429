"""What has come of a response behind a piece that takes more than a turn to decode. Pure.

Pieces and the end of the body wait here in their order, and go on turn by turn.
"""

from __future__ import annotations

from collections import deque

from egress.exchange import CutExchange, Exchange
from egress.shares.turns import Turn
from egress.types import Headers

Step = list[bytes] | CutExchange | Headers


class Backlog:
    """The response of one exchange, as far as it was not passed on yet."""

    __slots__ = ("_exchange", "_waiting", "has_end")

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._waiting: deque[bytes | Headers] = deque()
        self.has_end = False
        """The end of the body waits: nothing of the response is still to come."""

    @property
    def is_empty(self) -> bool:
        """Everything that came has been passed on."""
        return not (self._waiting or self._exchange.is_behind)

    def data(self, data: bytes, turn: Turn) -> list[bytes] | CutExchange:
        """Take a piece of the body; return what may go out now, which is nothing for one that waits."""
        if self.is_empty:
            return self._exchange.data(data, turn)
        self._waiting.append(data)
        return []

    def keep_end(self, trailers: Headers) -> bool:
        """Let the end of the body wait behind what waits already; return whether it has to."""
        if self.is_empty:
            return False
        self._waiting.append(trailers)
        self.has_end = True
        return True

    def step(self, turn: Turn) -> Step:
        """Go on; return what may go out now, or the trailers where the end has come."""
        if self._exchange.is_behind:
            return self._exchange.more(turn)
        item = self._waiting.popleft()
        return self._exchange.data(item, turn) if isinstance(item, bytes) else item

    def clear(self) -> None:
        """Drop everything that waits."""
        self._waiting.clear()
