"""Bytes as they come, cut into lines of text."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator


def lines(pieces: Iterable[bytes], *, is_whole: bool = True) -> Iterator[str]:
    """Return the lines of a text that comes in pieces, without their ends.

    Without `is_whole` what there is of the last one is returned as well whenever a piece has come, and again
    when there is more of it: for those who wait for a prompt.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""
    for piece in pieces:
        *whole, rest = (rest + decoder.decode(piece)).split("\n")
        for line in whole:
            yield line.removesuffix("\r")
        if rest and not is_whole:
            yield rest
    rest += decoder.decode(b"", final=True)
    if rest:
        yield rest
