"""Several compiled searches, used as one.

Theory of operation. To compile the search for a long value takes as long as for all the others together, so
where one value is added to many it is compiled alone and joined to what is there. What is masked is the same:
every part is searched in the data as it came, and the occurrences of all of them are covered, also where
they overlap. A search costs a little more than in one that was compiled as a whole.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from egress.scrub.needles import Masked, Needles, cover


class Joined:
    """What finds everything that one of its parts finds."""

    __slots__ = ("_parts",)

    def __init__(self, parts: Iterable[Needles]) -> None:
        self._parts = tuple(parts)

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __repr__(self) -> str:
        return f"<Joined: {len(self)}>"

    def mask(self, data: bytes) -> Masked:
        """Mask every occurrence in one whole value; the length stays."""
        found: Counter[str] = Counter()
        masked = bytearray()
        for part in self._parts:
            for occurrence in part.occurrences(data):
                masked = masked or bytearray(data)
                cover(masked, occurrence.start, occurrence.end)
                found.update(occurrence.names)
        return Masked(bytes(masked) if masked else data, found)
