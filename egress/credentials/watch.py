"""Looking for canaries in what one request sends: its head, then its body piece by piece.

The piece in which a value ends is never let through. Pieces before it may have gone, with the beginning of
the value. Must not keep more than the longest spelling of a value.
"""

from __future__ import annotations

from egress.credentials.canary import Canaries, Seen
from egress.types import Head


class Watch:
    """The watch over one request; not to be shared."""

    __slots__ = ("_canaries", "_tail")

    def __init__(self, canaries: Canaries) -> None:
        self._canaries = canaries
        self._tail = b""

    def head(self, head: Head) -> Seen | None:
        """What there is to say of a head that carries a canary; None where it carries none."""
        return self._canaries.seen_in(head)

    def shown(self, path: str) -> str:
        """The path of that head, for the log."""
        return self._canaries.masked(path)

    def piece(self, piece: bytes) -> Seen | None:
        """The same for the next piece of the body, and for what began in the pieces before."""
        data = self._tail + piece
        self._tail = data[1 - self._canaries.longest :] if self._canaries.longest > 1 else b""
        return self._canaries.seen_among(data)
