"""Frames of WebSocket and HTTP/2 as values: written with any lie in them, read with any damage.

A frame can be packed into bytes, so that a sample of the corpus holds it. Header blocks are written as
literals that need no table, so frames can be dropped and moved and still mean what they meant.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final, Self

from hpack import Decoder
from hpack.exceptions import HPACKError

Field = tuple[bytes, bytes]

STREAM: Final = 0x7FFF_FFF0
"""Stands for the stream of the request that is answered."""
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_WS: Final = struct.Struct(">BBBq")
_H2: Final = struct.Struct(">BBIi?")
_KEY: Final = b"\x21\x43\x65\x87"


@dataclass(frozen=True, slots=True)
class WsFrame:
    """One frame; `size` is the length that it states where that is not its own."""

    kind: int
    data: bytes = b""
    final: bool = True
    reserved: int = 0
    size: int = -1

    def packed(self) -> bytes:
        return _WS.pack(self.kind, self.final, self.reserved, self.size) + self.data

    @classmethod
    def unpacked(cls, data: bytes) -> Self:
        kind, final, reserved, size = _WS.unpack_from(data)
        return cls(kind, data[_WS.size :], bool(final), reserved, size)

    def wire(self, data: bytes, *, masked: bool) -> bytes:
        """The bytes of it, with this payload."""
        told = len(data) if self.size < 0 else self.size
        mark = 0x80 if masked else 0
        start = bytes([(self.final << 7 | self.reserved << 4 | self.kind) & 0xFF])
        if told < 126:
            start += bytes([mark | told])
        elif told < 1 << 16:
            start += bytes([mark | 126]) + struct.pack("!H", told)
        else:
            start += bytes([mark | 127]) + struct.pack("!Q", told)
        if not masked:
            return start + data
        return start + _KEY + bytes(byte ^ _KEY[at % 4] for at, byte in enumerate(data))


@dataclass(frozen=True, slots=True)
class H2Frame:
    """One frame; with `is_fields` its data is a list of fields that is still to be encoded."""

    kind: int
    flags: int
    stream: int
    data: bytes = b""
    size: int = -1
    is_fields: bool = False

    def packed(self) -> bytes:
        return _H2.pack(self.kind, self.flags, self.stream, self.size, self.is_fields) + self.data

    @classmethod
    def unpacked(cls, data: bytes) -> Self:
        kind, flags, stream, size, is_fields = _H2.unpack_from(data)
        return cls(kind, flags, stream, data[_H2.size :], size, bool(is_fields))

    def wire(self, data: bytes, stream: int = STREAM) -> bytes:
        """The bytes of it, with this payload, on this stream where it is for the request's own."""
        payload = _block(data) if self.is_fields else data
        told = (len(payload) if self.size < 0 else self.size) & 0xFF_FFFF
        at = stream if self.stream == STREAM else self.stream
        return (
            told.to_bytes(3) + bytes([self.kind & 0xFF, self.flags & 0xFF]) + struct.pack(">I", at) + payload
        )


def _block(data: bytes) -> bytes:
    pairs = (field.partition(b"\x1f") for field in data.split(b"\x1e")) if data else ()
    return b"".join(b"\x10" + _text(name) + _text(value) for name, _, value in pairs)


def _text(data: bytes) -> bytes:
    if len(data) < 127:
        return bytes([len(data)]) + data
    left, made = len(data) - 127, bytearray([127])
    while left >= 128:
        made.append(left & 127 | 128)
        left >>= 7
    return bytes(made) + bytes([left]) + data


# Reading what came back ---------------------------------------------------------------------------


class H2Seen:
    """What a client of HTTP/2 got to see, however the peer framed it."""

    def __init__(self) -> None:
        self.ended: set[int] = set()
        """Streams that are over, 0 for the connection."""
        self.text = bytearray()
        """All fields, one a line."""
        self.bodies: dict[int, bytearray] = {}
        self._kept = bytearray()
        self._block = bytearray()
        self._decoder = Decoder()

    def feed(self, data: bytes) -> None:
        self._kept += data
        while len(self._kept) >= 9:
            size = int.from_bytes(self._kept[:3])
            if len(self._kept) < 9 + size:
                return
            kind, flags, stream = struct.unpack_from(">BBI", self._kept, 3)
            payload = bytes(self._kept[9 : 9 + size])
            del self._kept[: 9 + size]
            self._frame(kind, flags, stream, payload)

    def everything(self) -> bytes:
        """Fields and bodies, for whoever looks for a secret in them."""
        return b"\n\n".join([bytes(self.text), *map(bytes, self.bodies.values())])

    def _frame(self, kind: int, flags: int, stream: int, payload: bytes) -> None:
        if kind in (0, 1) and flags & 1:
            self.ended.add(stream)
        if kind == 0:
            self.bodies.setdefault(stream, bytearray()).extend(payload)
        elif kind in (1, 9):
            self._block += payload
            if flags & 4:
                self._fields()
        elif kind == 3:
            self.ended.add(stream)
        elif kind == 7:
            self.ended.add(0)
            self.text += payload[8:] + b"\n"

    def _fields(self) -> None:
        try:
            found = self._decoder.decode(bytes(self._block), raw=True)
        except HPACKError:
            found = []
        self._block.clear()
        for name, value in found:
            self.text += bytes(name) + b": " + bytes(value) + b"\n"


def ws_seen(data: bytes) -> bytes:
    """The payloads of all frames joined, as far as they are frames."""
    at, parts = 0, []
    while len(data) - at >= 2:
        size = data[at + 1] & 0x7F
        more = {126: 2, 127: 8}.get(size, 0)
        if more:
            size = int.from_bytes(data[at + 2 : at + 2 + more])
        at += 2 + more
        parts.append(data[at : at + size])
        at += size
    return b"".join(parts)
