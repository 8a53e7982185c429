"""Looking for canaries in what one request sends: its head, then its body piece by piece.

The piece in which a value ends is never let through. Pieces before it may have gone, with the beginning of
the value. Must not keep more than the longest spelling of a value, of the body and of what is said aside.
"""

from __future__ import annotations

from egress.credentials.canary import Canaries, Seen
from egress.types import Head


class Watch:
    """The watch over one request; not to be shared."""

    __slots__ = ("_aside", "_canaries", "_tail")

    def __init__(self, canaries: Canaries) -> None:
        self._canaries = canaries
        self._tail = b""
        self._aside = b""

    def head(self, head: Head) -> Seen | None:
        """What there is to say of a head that carries a canary; None where it carries none."""
        return self._canaries.seen_in(head)

    def shown(self, text: str) -> str:
        """The path or the method of that head, for the log."""
        return self._canaries.masked(text)

    def piece(self, piece: bytes, *, aside: bool = False) -> Seen | None:
        """The same for the next piece of the body, and for what began in the pieces before.

        `aside` is for what may stand between two pieces and is none, such as a ping: it must not take
        the place of what a value began in. Values that are split over such are found as well.
        """
        data = (self._aside if aside else self._tail) + piece
        if aside:
            self._aside = self._canaries.tail(data)
        else:
            self._tail = self._canaries.tail(data)
        return self._canaries.seen_among(data)
