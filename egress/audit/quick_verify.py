"""Fast verification of batches of lines, for the usual case of an intact log.

The result is one answer per batch: every line is authentic and follows its predecessor, or not. The caller
verifies a failed batch line by line to find the fault. This path must never accept a line that the slow path
rejects: the whole tail of a line is compared, and a batch with a gap line goes to the slow path.

Each line costs two hashes, so the loop holds little else. Comparison in constant time is not needed: no
attacker observes the timing of a verification.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import BinaryIO

from egress.audit.chain import MAX_LINE_BYTES, TAIL
from egress.audit.gaps import GAP_MARK

CHUNK = 1024 * 1024
_BLOCK = 64
"""Block size of SHA-256; HMAC pads a shorter key to it."""


class BatchVerifier:
    """Verifies the MACs of many lines in one call."""

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes) -> None:
        # HMAC from two keyed states: an `hmac` object costs a third more per line.
        filled = key.ljust(_BLOCK, b"\0")
        self._inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in filled))
        self._outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in filled))

    def last_mac(self, mac: bytes, lines: list[bytes]) -> bytes | None:
        """Return the MAC of the last line; None if any line does not verify. Lines come without line ends."""
        inner, outer = self._inner, self._outer
        for line in lines:
            state = inner.copy()
            state.update(mac + line[:-TAIL])
            result = outer.copy()
            result.update(state.digest())
            mac = result.digest()
            if line[-TAIL:] != b',"mac":"%b"}' % mac.hex().encode("ascii"):
                return None
        return mac


def read_batches(file: BinaryIO) -> Iterator[bytes]:
    """Yield a file in pieces that end with a line end, each as long as fits.

    An overlong line and an unfinished line come in parts, as `readline` returns them.
    """
    while True:
        start = file.tell()
        data = file.read(CHUNK)
        if not data:
            return
        end = data.rfind(b"\n") + 1
        if end:
            # The unfinished rest is read again, as the beginning of the next piece.
            file.seek(start + end)
            yield data[:end]
        else:
            file.seek(start)
            yield from _one_line(file)


def _one_line(file: BinaryIO) -> Iterator[bytes]:
    while part := file.readline(MAX_LINE_BYTES):
        yield part
        if part.endswith(b"\n"):
            return


def is_plain(data: bytes) -> bool:
    """True if a piece consists of whole lines without a gap line."""
    return data.endswith(b"\n") and GAP_MARK not in data


def split_lines(data: bytes) -> Iterator[bytes]:
    """Yield the lines of a piece with their line ends; an overlong line comes in parts."""
    *whole, rest = data.split(b"\n")
    for line in (*(line + b"\n" for line in whole), rest):
        for at in range(0, len(line), MAX_LINE_BYTES):
            yield line[at : at + MAX_LINE_BYTES]
