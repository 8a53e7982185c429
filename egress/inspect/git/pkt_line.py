"""pkt-lines, the framing of git's protocol: four hex digits of length, then the bytes.

A length of 0000 is a flush. The delimiters of protocol version 2 (0001, 0002) and empty lines (0004) end a
list of commands for some servers and not for others, so no length below 5 but the flush is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from egress.errors import WireError

MAX_PKT_BYTES: Final = 65_520
"""Most bytes of a line with its length."""
LENGTH_BYTES: Final = 4
FLUSH: Final = b""
"""A flush as `PktLineReader` returns it: no line is empty."""
FLUSH_PKT: Final = b"0000"

_HEX_DIGITS: Final = frozenset(b"0123456789abcdefABCDEF")


class PktLineReader:
    """Splits bytes into lines, however they were cut. It keeps what it has not handed out."""

    __slots__ = ("_at", "_buffer")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._at = 0

    def feed(self, data: bytes) -> None:
        """Take in bytes. The caller bounds how many."""
        self._buffer += data

    def next_line(self) -> bytes | None:
        """Return the next line without its length, `FLUSH` for a flush, or None before it is complete.

        Raises WireError for a length that no line has.
        """
        digits = self._buffer[self._at : self._at + LENGTH_BYTES]
        if not _HEX_DIGITS.issuperset(digits):
            raise WireError("The length of a pkt-line is not four hex digits.")
        if len(digits) < LENGTH_BYTES:
            return None
        length = int(digits, 16)
        if length and not LENGTH_BYTES < length <= MAX_PKT_BYTES:
            raise WireError("The length of a pkt-line is out of range.")
        end = self._at + max(length, LENGTH_BYTES)
        if len(self._buffer) < end:
            return None
        line = bytes(self._buffer[self._at + LENGTH_BYTES : end])
        self._at = end
        return line

    def peek(self, count: int) -> bytes:
        """Return up to `count` bytes that no line has taken, and keep them."""
        return bytes(self._buffer[self._at : self._at + count])

    def take_rest(self) -> bytes:
        """Hand over the bytes that no line has taken: what follows the lines is not framed."""
        rest = bytes(self._buffer[self._at :])
        self._buffer.clear()
        self._at = 0
        return rest


def pkt_line(data: bytes) -> bytes:
    """Return one line with its length."""
    if not 0 < len(data) <= MAX_PKT_BYTES - LENGTH_BYTES:
        raise ValueError("a pkt-line holds 1 to 65516 bytes")
    return b"%04x" % (len(data) + LENGTH_BYTES) + data


def pkt_lines(band: bytes, data: bytes, most: int) -> Iterator[bytes]:
    """Cut bytes into lines of at most `most` bytes with their length, each led by the same byte."""
    step = most - LENGTH_BYTES - len(band)
    for at in range(0, len(data), step):
        yield pkt_line(band + data[at : at + step])
