r"""Frames: what is spoken between a fleet and those who use it from another process.

Theory of operation. A frame is one byte for its kind, four for the length of what follows, and that. `HEAD`
is a JSON object and says what is wanted or what came of it; the others are bytes as they are, of one of the
streams that go along with a call. Every kind has a bound, and a kind that is not known, a length above the
bound, or a head that is no plain JSON object ends the conversation: nothing is repaired or skipped.

A conversation is one call. Whoever calls begins with the version it speaks and what it wants, and is answered
with the version of the other side and what came of it; between them go the streams. What is sent into a call
(`INPUT`) is sent one piece at a time: the next one when the other side says that the last was
`TAKEN`. So
neither side ever holds more than a piece, and a word such as "end it" is never stuck behind data.

It has no socket: bytes in, frames out.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from egress.fleet.errors import FleetProtocolError

RPC_VERSION: Final = 1
MAX_PIECE_BYTES: Final = 64 * 1024
"""The most bytes of a stream in one frame."""
MAX_HEAD_BYTES: Final = 4 * 1024 * 1024
_HEADER_FORMAT: Final = struct.Struct("!BI")

Head = Mapping[str, object]


class FrameKind(IntEnum):
    """What a frame is."""

    HEAD = 1
    INPUT = 2
    """Of a command, or of an archive that is laid down."""
    END = 3
    """There is no more input, or no more output."""
    TAKEN = 4
    """The last piece of input was taken."""
    OUTPUT = 5
    """Of a command, or of an archive that is fetched."""
    ERRORS = 6
    """The standard error of a command."""


_MAX_BYTES_BY_KIND: Final[Mapping[FrameKind, int]] = {
    FrameKind.HEAD: MAX_HEAD_BYTES,
    FrameKind.INPUT: MAX_PIECE_BYTES,
    FrameKind.END: 0,
    FrameKind.TAKEN: 0,
    FrameKind.OUTPUT: MAX_PIECE_BYTES,
    FrameKind.ERRORS: MAX_PIECE_BYTES,
}


@dataclass(frozen=True, slots=True)
class RpcFrame:
    """One piece of a conversation."""

    kind: FrameKind
    data: bytes = b""

    @property
    def head(self) -> Head:
        """What a head says. Raises `FleetProtocolError` for what is no head."""
        if self.kind is not FrameKind.HEAD:
            raise protocol_error()
        return _read(self.data)


def make_head(**values: object) -> RpcFrame:
    """Make a head."""
    return RpcFrame(FrameKind.HEAD, json.dumps(values, separators=(",", ":"), allow_nan=False).encode())


def encode(frame: RpcFrame) -> bytes:
    """Raises `FleetProtocolError` for one that is too large."""
    if len(frame.data) > _MAX_BYTES_BY_KIND[frame.kind]:
        raise FleetProtocolError("what was asked for is too much for one message", "ask for less at a time")
    return _HEADER_FORMAT.pack(frame.kind, len(frame.data)) + frame.data


def split_pieces(kind: FrameKind, data: bytes) -> Iterator[RpcFrame]:
    """Bytes of a stream as frames."""
    view = memoryview(data)
    for begin in range(0, len(data), MAX_PIECE_BYTES):
        yield RpcFrame(kind, bytes(view[begin : begin + MAX_PIECE_BYTES]))


class FrameParser:
    """Bytes in, frames out, however they were cut."""

    def __init__(self) -> None:
        self._kept = bytearray()

    @property
    def is_between(self) -> bool:
        """Whether no frame has begun that has not ended."""
        return not self._kept

    def feed(self, data: bytes) -> Iterator[RpcFrame]:
        """Raises `FleetProtocolError` for what is no frame; those before it have come by then."""
        self._kept += data
        while len(self._kept) >= _HEADER_FORMAT.size:
            number, length = _HEADER_FORMAT.unpack_from(self._kept)
            kind = _kind(number, length)
            end = _HEADER_FORMAT.size + length
            if len(self._kept) < end:
                return
            frame = RpcFrame(kind, bytes(self._kept[_HEADER_FORMAT.size : end]))
            del self._kept[:end]
            yield frame


def protocol_error() -> FleetProtocolError:
    """Say that the other side does not keep to what is spoken here."""
    return FleetProtocolError(
        "the other side of the socket does not speak as a fleet does", "bring both to one version of egress"
    )


def _kind(number: int, length: int) -> FrameKind:
    try:
        kind = FrameKind(number)
    except ValueError:
        raise protocol_error() from None
    if length > _MAX_BYTES_BY_KIND[kind]:
        raise protocol_error()
    return kind


def _read(data: bytes) -> Head:
    try:
        found = json.loads(data, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise protocol_error() from None
    if not isinstance(found, dict):
        raise protocol_error()
    return found


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found


def _refuse_constant(_: str) -> object:
    raise ValueError
