"""Scrub one stream chunk by chunk, with the same result as scrubbing it as a whole.

Theory of operation. An occurrence that ends in the future begins with bytes at the end of what has
come so far, so exactly one thing must be held back: the longest end of the data that is a proper
beginning of some needle. Everything before it can no longer become part of an occurrence and is
released at once; a stream of events is not delayed unless a secret may have begun.

What is held back exists twice: as it came, for the search to go on, and as it will go out, because
an occurrence that is already complete may reach into it. An occurrence counts when its last byte
arrives: those that end inside the held part were counted and masked before.

At most twice the longest needle is kept (`needles.LONGEST_NEEDLE` bounds it). Must not keep more.
"""

from __future__ import annotations

from collections import Counter

from egress.scrub.needles import Needles, cover


class Scrubber:
    """The scrub of one stream; not to be shared between streams."""

    __slots__ = ("_came", "_goes", "_needles", "found")

    def __init__(self, needles: Needles, found: Counter[str] | None = None) -> None:
        """`found` is where to count, when others count there too."""
        self._needles = needles
        self._came = b""
        self._goes = b""
        self.found: Counter[str] = Counter() if found is None else found
        """How often each secret was found so far."""

    @property
    def hits(self) -> int:
        """How many occurrences were found so far; anything above zero is a reason to block."""
        return self.found.total()

    @property
    def held(self) -> int:
        """How many bytes are held back now."""
        return len(self._came)

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take the next bytes and return what may go out: non-empty chunks, or none at all.

        When `hits` has grown, the secret is masked in what is returned and in what follows.
        """
        if not chunk:
            return []
        needles = self._needles
        came, goes = self._came + chunk, self._goes + chunk
        if needles.occur_in(came):
            goes = self._masked(came, goes)
        split = len(came) - needles.open_tail(came)
        self._came, self._goes = came[split:], goes[split:]
        return [goes[:split]] if split else []

    def finish(self) -> list[bytes]:
        """Return what was held back: the stream has ended, so it was no secret."""
        rest = self._goes
        self._came = self._goes = b""
        return [rest] if rest else []

    def _masked(self, came: bytes, goes: bytes) -> bytes:
        known = len(self._came)
        masked = bytearray()
        for occurrence in self._needles.occurrences(came):
            if occurrence.end > known:
                masked = masked or bytearray(goes)
                cover(masked, occurrence)
                self.found.update(occurrence.names)
        return bytes(masked) if masked else goes
