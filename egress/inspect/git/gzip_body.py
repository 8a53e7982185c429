"""The body of a push that its client has compressed, as JGit does.

Servers differ in what they make of bytes behind the first gzip member: some read on, some stop. So a push
that needs more than one member to be understood is refused. What follows a pack that has begun is a part of
the pack for either of them.
"""

from __future__ import annotations

import zlib
from typing import Final

from egress.errors import WireError

FREE_PLAIN_BYTES: Final = 256 * 1024
MAX_PLAIN_GROWTH: Final = 8
"""Above so many bytes a push inflates at most so many times: packs are compressed already."""
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS
_PIECE_BYTES: Final = 64 * 1024


class GzipBody:
    """Decodes one gzip member that is fed in any pieces."""

    __slots__ = ("_decoder", "_fed", "_made")

    def __init__(self) -> None:
        self._decoder = zlib.decompressobj(_GZIP_WINDOW)
        self._fed = 0
        self._made = 0

    def feed(self, data: bytes) -> bytes:
        """Take in bytes; return what they stand for. Raises WireError."""
        self._fed += len(data)
        made = bytearray()
        while True:
            if self._decoder.eof and data:
                raise WireError("Bytes follow the compressed push.")
            try:
                piece = self._decoder.decompress(data, _PIECE_BYTES)
            except zlib.error:
                raise WireError("The push is not compressed as it says.") from None
            made += piece
            self._made += len(piece)
            if self._made > FREE_PLAIN_BYTES + MAX_PLAIN_GROWTH * self._fed:
                raise WireError("The push inflates too much.", status=413)
            data = self._decoder.unconsumed_tail or self._decoder.unused_data
            # A full piece may leave some behind in the decoder.
            if not data and len(piece) < _PIECE_BYTES:
                return bytes(made)

    def end(self) -> None:
        """Take note that the body has ended. Raises WireError where it is cut short."""
        if not self._decoder.eof:
            raise WireError("The compressed push is cut short.")
