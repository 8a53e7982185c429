"""The lines of a file, in bounded memory, whatever stands in it.

It hands out every line with the place where it begins. A line that is too long to be ours is never held:
it is skipped, and handed out as its length alone. What stands behind the last line end is not handed
out: a process is writing it just now, or was killed while it did.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from egress.audit.chain import MAX_LINE_BYTES

CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Piece:
    """Some lines that stand one behind the other, without their ends; or one that is too long."""

    at: int
    lines: list[bytes]
    skipped: int = 0
    """The bytes of a line that is too long, its end included."""

    @property
    def size(self) -> int:
        """How many bytes it takes in the file."""
        return self.skipped + sum(map(len, self.lines)) + len(self.lines)


def pieces(file: BinaryIO, start: int = 0, stop: int | None = None) -> Iterator[Piece]:
    """Go through a file from a place where a line begins, up to another one. Raises `OSError`."""
    at = start
    while True:
        file.seek(at)
        # Up to `stop` and no further: bytes behind it may belong to a line that is being written.
        data = file.read(CHUNK_BYTES if stop is None else max(min(CHUNK_BYTES, stop - at), 0))
        end = data.rfind(b"\n") + 1
        if end:
            yield from _sorted_out(at, data[: end - 1].split(b"\n"))
            at += end
        # A short read without a line end is the end of the file, in the middle of a line.
        elif len(data) < CHUNK_BYTES:
            return
        else:
            size = _line_end(file, at) - at
            if size < 0:
                return
            yield Piece(at, [], size)
            at += size


def _sorted_out(at: int, lines: list[bytes]) -> Iterator[Piece]:
    """Lines as one piece; what is too long among them as pieces of its own."""
    # Nearly every piece is free of overlong lines, and passes as a whole.
    if max(map(len, lines)) <= MAX_LINE_BYTES:
        yield Piece(at, lines)
        return
    for line in lines:
        yield Piece(at, [], len(line) + 1) if len(line) > MAX_LINE_BYTES else Piece(at, [line])
        at += len(line) + 1


def _line_end(file: BinaryIO, at: int) -> int:
    """The end of the line that begins here; -1 while it has none."""
    # Only its end is looked for: a line of any length needs the memory of one chunk.
    file.seek(at)
    while data := file.read(CHUNK_BYTES):
        end = data.find(b"\n")
        if end >= 0:
            return at + end + 1
        at += len(data)
    return -1
