"""A WebSocket from the sandbox: opened by hand, spoken in frames that need not make sense."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tests.attack.lab.client import Answer, Line
from tests.proxy.lab.websocket import NONCE

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
_MASK: Final = b"\x21\x43\x65\x87"


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame as it came, its mask taken off."""

    kind: int
    data: bytes
    final: bool = True
    reserved: int = 0
    """The three bits that extensions use."""


def ask_for_websocket(line: Line, host: str, target: str = "/ws", *extra: str) -> Answer:
    """Ask for an upgrade; anything but 101 is a refusal."""
    head = [f"GET {target} HTTP/1.1", f"host: {host}", "upgrade: websocket", "connection: Upgrade"]
    head += ["sec-websocket-version: 13", f"sec-websocket-key: {NONCE}", *extra, "", ""]
    return line.send("\r\n".join(head).encode("latin-1")).response()


def frame(
    kind: int, data: bytes = b"", *, final: bool = True, masked: bool = True, reserved: int = 0
) -> bytes:
    """The bytes of a frame, right or wrong."""
    start = bytes([final << 7 | reserved << 4 | kind])
    mark = 0x80 if masked else 0
    if len(data) < 126:
        start += bytes([mark | len(data)])
    elif len(data) < 1 << 16:
        start += bytes([mark | 126]) + len(data).to_bytes(2)
    else:
        start += bytes([mark | 127]) + len(data).to_bytes(8)
    if not masked:
        return start + data
    return start + _MASK + bytes(byte ^ _MASK[at % 4] for at, byte in enumerate(data))


def read_frame(line: Line) -> Frame | None:
    """The next frame; None when the connection ends, or nothing comes."""
    start = line.exactly(2)
    if len(start) < 2:
        return None
    length = start[1] & 0x7F
    if length > 125:
        length = int.from_bytes(line.exactly(2 if length == 126 else 8))
    mask = line.exactly(4) if start[1] & 0x80 else b"\0\0\0\0"
    data = line.exactly(length)
    plain = bytes(byte ^ mask[at % 4] for at, byte in enumerate(data)) if any(mask) else data
    return Frame(start[0] & 15, plain, bool(start[0] & 0x80), start[0] >> 4 & 7)


def frames(line: Line) -> Iterator[Frame]:
    """All frames until the end, or until a close has come."""
    while (found := read_frame(line)) is not None:
        yield found
        if found.kind == CLOSE:
            return
