"""Splits a stream at lines that begin with a marker, however the stream is cut into pieces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

_MAX_MARKER_VALUE_BYTES: Final = 40


class MarkerSplitter:
    """A stream, split at lines that begin with the marker."""

    def __init__(
        self, mark: bytes, output: Callable[[bytes], object], found: Callable[[bytes], object]
    ) -> None:
        """`output` gets bytes outside of markers, `found` the value after each marker."""
        self._mark = mark
        self._output = output
        self._found = found
        self._held = b""

    def add(self, piece: bytes) -> None:
        """Add the next bytes."""
        self._held += piece
        while (at := self._held.find(self._mark)) >= 0:
            fact, end, rest = self._held[at + len(self._mark) :].partition(b"\n")
            if not end and len(fact) <= _MAX_MARKER_VALUE_BYTES:
                self._pass_on(at)
                return
            self._pass_on(at)
            self._held = rest
            self._found(fact.strip())
        self._pass_on(len(self._held) - self._overlap())

    def rest(self) -> None:
        """Flush: the stream has ended, so held bytes are no marker."""
        self._pass_on(len(self._held))

    def _pass_on(self, size: int) -> None:
        if size:
            self._output(self._held[:size])
            self._held = self._held[size:]

    def _overlap(self) -> int:
        """The number of last bytes that may be the beginning of a marker."""
        most = min(len(self._held), len(self._mark) - 1)
        return next((size for size in range(most, 0, -1) if self._mark.startswith(self._held[-size:])), 0)
