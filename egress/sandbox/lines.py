"""Bytes as they come, cut into lines of text."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from typing import Final

LONGEST: Final = 1024 * 1024
"""Letters of a line."""


def lines(pieces: Iterable[bytes], *, is_whole: bool = True) -> Iterator[str]:
    """Return the lines of a text that comes in pieces, without their ends.

    Without `is_whole` what there is of the last one is returned as well whenever a piece has come, and again
    when there is more of it: for those who wait for a prompt. A line that is longer than any should be is
    cut: whoever writes it need never end it.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    rest = ""
    for piece in pieces:
        *whole, rest = (rest + decoder.decode(piece)).split("\n")
        if len(rest) > LONGEST:
            whole, rest = [*whole, rest], ""
        for line in whole:
            yield line.removesuffix("\r")
        if rest and not is_whole:
            yield rest
    rest += decoder.decode(b"", final=True)
    if rest:
        yield rest
