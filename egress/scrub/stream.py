"""Scrub one stream chunk by chunk, with the same result as scrubbing it as a whole.

Theory of operation. An occurrence that ends in the future begins with bytes at the end of what has
come so far, so exactly one thing must be held back: the longest end of the data that is a proper
beginning of some needle. Everything before it can no longer become part of an occurrence and is
released at once; a stream of events is not delayed unless a secret may have begun.

What is held back exists twice: as it came, for the search to go on, and as it will go out, because
an occurrence that is already complete may reach into it. An occurrence counts when its last byte
arrives: those that end inside the held part were counted and masked before.

Needles may change while the stream runs: a secret may get its value, or another one, under way. Whoever
writes the stream may have known that value before. What has been released of it by then is gone, but its
rest can still be masked: so the end of what was released is remembered, as it came, for `learn` to look
back at. From then on what is held may begin before what is still to go out.

At most three times the longest needle is kept (`needles.LONGEST_NEEDLE` bounds it). Must not keep more.
"""

from __future__ import annotations

from collections import Counter

from egress.scrub.needles import MAX_NEEDLE_BYTES, Needles, Occurrence, mask_range

_REMEMBERED_BYTES = MAX_NEEDLE_BYTES - 1
"""No needle begins further back than this and is still incomplete."""


class Scrubber:
    """The scrub of one stream; not to be shared between streams."""

    __slots__ = ("_came", "_goes", "_needles", "_past", "found")

    def __init__(self, needles: Needles, found: Counter[str] | None = None) -> None:
        """`found` is where to count, when others count there too."""
        self._needles = needles
        self._came = b""
        self._goes = b""
        self._past = b""
        self.found: Counter[str] = Counter() if found is None else found
        """How often each secret was found so far."""

    @property
    def hits(self) -> int:
        """How many occurrences were found so far; anything above zero is a reason to block."""
        return self.found.total()

    @property
    def held(self) -> int:
        """How many bytes are held back now."""
        return len(self._goes)

    def update_needles(self, needles: Needles) -> None:
        """Look for these from now on, also in what is held back and across its beginning.

        `hits` may grow with it, as with `feed`.
        """
        before, self._needles = frozenset(self._needles), needles
        released = len(self._past)
        came = self._past + self._came[len(self._came) - len(self._goes) :]
        # What the needles before this have found is counted and masked already.
        news = [
            each
            for each in needles.occurrences(came)
            if each.end > released and came[each.start : each.end] not in before
        ]
        self._goes = self._masked(news, released, self._goes)
        # More may be held now than must be: the next piece, or the end, lets it go.
        self._came = came[len(came) - max(needles.open_tail(came), len(self._goes)) :]

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next bytes and return what may go out: non-empty chunks, or none at all.

        When `hits` has grown, the secret is masked in what is returned and in what follows.
        """
        if not chunk:
            return []
        needles = self._needles
        known, ahead = len(self._came), len(self._came) - len(self._goes)
        came, goes = self._came + chunk, self._goes + chunk
        if needles.occur_in(came):
            goes = self._masked([each for each in needles.occurrences(came) if each.end > known], ahead, goes)
        whole, tail = len(came), needles.open_tail(came)
        self._came = came[whole - tail :]
        split = len(goes) - tail
        if split <= 0:
            self._goes = goes
            return []
        self._goes = goes[split:]
        fresh = came[ahead : whole - tail]
        past = fresh if split >= _REMEMBERED_BYTES else self._past + fresh
        self._past = past[-_REMEMBERED_BYTES:]
        return [goes[:split]]

    def finish(self) -> list[bytes]:
        """Return what was held back: the stream has ended, so it was no secret."""
        rest = self._goes
        self._came = self._goes = self._past = b""
        return [rest] if rest else []

    def _masked(self, occurrences: list[Occurrence], ahead: int, goes: bytes) -> bytes:
        """Mask and count them; `goes` begins `ahead` bytes behind the data that they are places in."""
        if not occurrences:
            return goes
        masked = bytearray(goes)
        for each in occurrences:
            mask_range(masked, max(0, each.start - ahead), each.end - ahead)
            self.found.update(each.names)
        return bytes(masked)
