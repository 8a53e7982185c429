r"""The frames that a fleet and its clients in other processes exchange.

Theory of operation. A frame is one byte for its kind, four bytes for its length, and the payload. `HEAD` is a
JSON object with a request or an answer; the other kinds carry raw bytes of a stream that belongs to a call.
Every kind has a maximum length. An unknown kind, a longer frame, or a head that is no plain JSON object ends
the connection: nothing is repaired or skipped.

A connection carries one call. The client sends its version and the call; the server answers with its version
and the result; streams go in between. Input into a call (`INPUT`) goes one piece at a time: the next piece
follows when the other side has `TAKEN` the last. So neither side holds more than one piece, and a request to
end the command never waits behind data.

The module has no socket: bytes in, frames out.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from egress.fleet.errors import FleetProtocolError

RPC_VERSION: Final = 3
MAX_PIECE_BYTES: Final = 64 * 1024
"""The maximum payload of a stream frame."""
MAX_HEAD_BYTES: Final = 4 * 1024 * 1024
_HEADER_FORMAT: Final = struct.Struct("!BI")

Head = Mapping[str, object]


class FrameKind(IntEnum):
    """The kind of a frame."""

    HEAD = 1
    INPUT = 2
    """Input of a command, or of an archive for the sandbox."""
    END = 3
    """The end of the input, or of the output."""
    TAKEN = 4
    """The last piece of input was taken."""
    OUTPUT = 5
    """Standard output of a command, or a piece of an archive from the sandbox."""
    ERRORS = 6
    """Standard error of a command."""


# A limit for each kind: the length comes first, and decides how much of a peer's data is kept.
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
    """A frame of the protocol: its kind and its payload."""

    kind: FrameKind
    data: bytes = b""

    @property
    def head(self) -> Head:
        """The JSON object of a head. Raises `FleetProtocolError` for any other frame."""
        if self.kind is not FrameKind.HEAD:
            raise protocol_error()
        return _read(self.data)


def make_head(**values: object) -> RpcFrame:
    """Make a head frame."""
    return RpcFrame(FrameKind.HEAD, json.dumps(values, separators=(",", ":"), allow_nan=False).encode())


def encode(frame: RpcFrame) -> bytes:
    """The bytes of a frame. Raises `FleetProtocolError` if it is too large."""
    if len(frame.data) > _MAX_BYTES_BY_KIND[frame.kind]:
        raise FleetProtocolError("the request is too large for one message", "send less at a time")
    return _HEADER_FORMAT.pack(frame.kind, len(frame.data)) + frame.data


def split_pieces(kind: FrameKind, data: bytes) -> Iterator[RpcFrame]:
    """Split bytes of a stream into frames."""
    view = memoryview(data)
    for begin in range(0, len(data), MAX_PIECE_BYTES):
        yield RpcFrame(kind, bytes(view[begin : begin + MAX_PIECE_BYTES]))


class FrameParser:
    """Parses frames out of bytes, however the bytes were cut."""

    def __init__(self) -> None:
        self._kept = bytearray()

    @property
    def is_between(self) -> bool:
        """Return whether the parser stands between two frames."""
        return not self._kept

    def feed(self, data: bytes) -> Iterator[RpcFrame]:
        """The frames completed by these bytes.

        Raises `FleetProtocolError` for an invalid one, after the valid ones.
        """
        self._kept += data
        while len(self._kept) >= _HEADER_FORMAT.size:
            number, length = _HEADER_FORMAT.unpack_from(self._kept)
            # Judged by the header alone: the data of a bad frame is never waited for.
            kind = _kind(number, length)
            end = _HEADER_FORMAT.size + length
            if len(self._kept) < end:
                return
            frame = RpcFrame(kind, bytes(self._kept[_HEADER_FORMAT.size : end]))
            del self._kept[:end]
            yield frame


def protocol_error() -> FleetProtocolError:
    """The error for a peer that breaks the protocol."""
    return FleetProtocolError(
        "the other side of the socket broke the fleet protocol", "run both in the same version of egress"
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
    # Of two equal keys, two parsers could each take another one.
    if len(found) < len(pairs):
        raise ValueError
    return found


def _refuse_constant(_: str) -> object:
    raise ValueError
