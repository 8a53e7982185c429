"""ClientHellos for tests: from the real OpenSSL, and put together by hand where no client would send them."""

from __future__ import annotations

import ssl
import struct
from collections.abc import Sequence

Extension = tuple[int, bytes]


def real(host: str | None, alpn: Sequence[str] = (), *, most: ssl.TLSVersion | None = None) -> bytes:
    """What OpenSSL sends first."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if most is not None:
        context.maximum_version = most
    if alpn:
        context.set_alpn_protocols(list(alpn))
    outgoing = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname=host).do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read()
    raise AssertionError("the handshake went on without a server")


def vector(size: int, data: bytes) -> bytes:
    """Bytes behind their length."""
    return len(data).to_bytes(size) + data


def server_name(*names: bytes, kind: int = 0) -> Extension:
    return 0, vector(2, b"".join(bytes([kind]) + vector(2, name) for name in names))


def protocols(*names: bytes) -> Extension:
    return 16, vector(2, b"".join(vector(1, name) for name in names))


def versions(*numbers: int) -> Extension:
    return 43, vector(1, struct.pack(f">{len(numbers)}H", *numbers))


def body(
    extensions: Sequence[Extension] | None = None,
    *,
    legacy: int = 0x0303,
    session: bytes = b"",
    suites: bytes = b"\x13\x01",
    compression: bytes = b"\x00",
) -> bytes:
    """The inside of the message; no extensions at all with None."""
    start = struct.pack(">H", legacy) + bytes(32) + vector(1, session) + vector(2, suites)
    listed = b"".join(struct.pack(">H", kind) + vector(2, data) for kind, data in extensions or ())
    return start + vector(1, compression) + (b"" if extensions is None else vector(2, listed))


def message(inside: bytes, kind: int = 1) -> bytes:
    return bytes([kind]) + vector(3, inside)


def records(data: bytes, size: int = 1 << 14, version: int = 0x0301) -> bytes:
    """The message, in as many records as it takes."""
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(b"\x16" + struct.pack(">H", version) + vector(2, piece) for piece in pieces)


def hello(*extensions: Extension) -> bytes:
    """One whole hello with these extensions."""
    return records(message(body(extensions)))
