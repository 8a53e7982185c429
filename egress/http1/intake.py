"""Collecting a head, or a trailer section, that may arrive in any number of pieces.

The search for the empty line goes on where it stopped, so a block that comes in byte by byte costs
no more than its length. Stray bytes are refused on arrival: a client that speaks something else, or
ends its lines wrongly, is told so at once instead of being waited for.

What is refused, and why, depends on the bytes alone and never on how they were cut. For that, a
fault counts only inside the first `limit` bytes, and before the empty line.
"""

from __future__ import annotations

from typing import Final

from egress.errors import WireError
from egress.http1.fields import find_fault

_END: Final = b"\r\n\r\n"


class Intake:
    """Gathers one block that ends with an empty line, of at most `limit` bytes."""

    __slots__ = ("_buffer", "_limit", "_of_request")

    def __init__(self, limit: int, *, of_request: bool = False) -> None:
        self._limit = limit
        self._of_request = of_request
        self._buffer = bytearray()

    @property
    def started(self) -> bool:
        """Some bytes of the block are here."""
        return bool(self._buffer)

    def take(self, data: bytes) -> tuple[bytes, bytes] | None:
        """Add `data`; return the whole block and what follows it, or None while it is incomplete."""
        if not self._buffer:
            end = data.find(_END, 0, self._limit)
            if end >= 0:
                return data[: end + 4], data[end + 4 :]
        before = len(self._buffer)
        self._buffer += data
        end = self._buffer.find(_END, max(0, before - 3), self._limit)
        if end < 0:
            self._check(before)
            return None
        block, rest = bytes(self._buffer[: end + 4]), bytes(self._buffer[end + 4 :])
        self._buffer.clear()
        return block, rest

    def _check(self, before: int) -> None:
        """Refuse what cannot become a block any more."""
        # One byte back: a CR waits for the byte behind it.
        fault = find_fault(self._buffer, max(0, before - 1), self._limit)
        if fault is not None:
            raise fault
        if len(self._buffer) >= self._limit:
            if self._of_request and b"\n" not in self._buffer[: self._limit]:
                raise WireError("The request target is too long.", "Send a shorter URL.", status=414)
            raise WireError("The header fields are too large.", "Send fewer or shorter fields.", status=431)
