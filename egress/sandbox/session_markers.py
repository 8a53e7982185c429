"""Where in the output of a session a command begins and ends: at a mark that nobody could guess.

What is no mark is passed on as soon as it cannot be the beginning of one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_MAX_FACT_BYTES: Final = 40


class MarkerSplitter:
    """One stream, cut at the lines that begin with a mark."""

    def __init__(
        self, mark: bytes, told: Callable[[bytes], object], found: Callable[[bytes], object]
    ) -> None:
        """`told` is given what is no mark, `found` what stands behind each mark."""
        self._mark = mark
        self._told = told
        self._found = found
        self._held = b""

    def add(self, piece: bytes) -> None:
        """Take the next bytes."""
        self._held += piece
        while (at := self._held.find(self._mark)) >= 0:
            fact, end, rest = self._held[at + len(self._mark) :].partition(b"\n")
            if not end and len(fact) <= _MAX_FACT_BYTES:
                self._pass_on(at)
                return
            self._pass_on(at)
            self._held = rest
            self._found(fact.strip())
        self._pass_on(len(self._held) - self._overlap())

    def rest(self) -> None:
        """There is no more: what was held back is no mark."""
        self._pass_on(len(self._held))

    def _pass_on(self, size: int) -> None:
        if size:
            self._told(self._held[:size])
            self._held = self._held[size:]

    def _overlap(self) -> int:
        """How many of the last bytes may be the beginning of a mark."""
        most = min(len(self._held), len(self._mark) - 1)
        return next((size for size in range(most, 0, -1) if self._mark.startswith(self._held[-size:])), 0)
