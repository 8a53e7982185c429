"""The first message of a TLS client: which host it names and what it offers.

Theory of operation. A ClientHello lies in one or more handshake records. `HelloReader` joins whole
records until the message is complete, then reads it once, strictly: every length must fit exactly, no
extension may stand twice, and a server name must have a canonical spelling. The verdict depends on
the bytes alone, never on how they were cut, because a record is looked at only when it is complete.

What is not TLS fails at its first byte, so that a client that speaks something else is told at once.
What follows the hello (early data) is not looked at.

This reads; it decides nothing, and it never answers. It knows no socket and no clock.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from egress.errors import WireError
from egress.rules.language.hosts import HostError, canonical_wire_host

MAX_HELLO_BYTES: Final = 17 * 1024
"""Most bytes of a hello with its record headers: one full record, and a bit."""

_HANDSHAKE: Final = 0x16
_CLIENT_HELLO: Final = 1
_RECORD_HEADER: Final = 5
_MESSAGE_HEADER: Final = 4
_MAX_RECORD_BYTES: Final = 1 << 14
_MINOR_VERSIONS: Final = frozenset({1, 2, 3})
"""TLS 1.0 to 1.2, as the version of a record; TLS 1.3 pretends to be one of them."""

_SERVER_NAME: Final = 0
_ALPN: Final = 16
_SUPPORTED_VERSIONS: Final = 43
_ENCRYPTED_HELLO_TYPES: Final = frozenset({0xFFCE, *range(0xFE08, 0xFE0E)})
"""Encrypted Client Hello, its drafts, and the encrypted server name before it."""


@dataclass(frozen=True, slots=True)
class ClientHello:
    """The fields of a ClientHello that the proxy reads, all sent in clear."""

    sni: str = ""
    """The canonical host name; empty if the client names none."""
    alpn: tuple[str, ...] = ()
    """The protocols offered, in the client's order; one character is one byte."""
    versions: tuple[int, ...] = ()
    """The TLS versions offered, such as 0x0304; invented ones that browsers mix in are among them."""
    encrypted: bool = False
    """The hello may carry a second, encrypted one that names another host.

    Browsers send a dummy of that extension to servers they know nothing of, and nobody can tell it
    from the real one. Where TLS ends here it means nothing: without a key the outer hello is the one
    that counts. Where only bytes pass, the upstream may have the key, so there it is to be refused.
    """


def looks_like_tls(first_byte: int) -> bool:
    """Tell whether a connection that starts with this byte can be TLS."""
    return first_byte == _HANDSHAKE


class HelloReader:
    """Collects the ClientHello from pieces of any size.

    Keeps about `limit` bytes, however much is fed; whoever feeds it keeps the bytes to pass on.
    """

    __slots__ = ("_fault", "_hello", "_kept", "_limit", "_message", "_records")

    def __init__(self, limit: int = MAX_HELLO_BYTES) -> None:
        self._limit = limit
        self._kept = bytearray()
        self._message = bytearray()
        self._records = 0
        self._hello: ClientHello | None = None
        self._fault: tuple[str, str] | None = None

    def feed(self, data: bytes) -> ClientHello | None:
        """Take what has arrived; return the hello once it is complete, and again ever after.

        Raises `WireError` for what cannot become an acceptable hello, and again ever after.
        """
        if self._fault is not None:
            raise WireError(*self._fault)
        if self._hello is not None:
            return self._hello
        # An allowed hello ends before these bytes do, so later bytes are not needed.
        self._kept += data[: self._limit + _RECORD_HEADER]
        try:
            self._hello = self._read_records()
        except WireError as fault:
            self._fault = fault.message, fault.hint
            self._kept.clear()
            raise
        if self._hello is not None:
            self._kept.clear()
            self._message.clear()
        return self._hello

    def _read_records(self) -> ClientHello | None:
        while (length := self._whole_record()) is not None:
            end = _RECORD_HEADER + length
            self._message += self._kept[_RECORD_HEADER:end]
            del self._kept[:end]
            self._records += end
            if (body := self._whole_message()) is not None:
                return _read(body)
        return None

    def _whole_record(self) -> int | None:
        """Return the length of the record that starts here, or None while it is incomplete."""
        kept = self._kept
        # Judged as soon as they arrive: a client of another protocol gets its answer at the first byte.
        if (kept and kept[0] != _HANDSHAKE) or (len(kept) > 1 and kept[1] != 3):
            raise WireError("This is not TLS.", "Speak TLS on this connection.")
        if len(kept) > 2 and kept[2] not in _MINOR_VERSIONS:
            raise WireError("The TLS record has an unknown version.", "Use TLS 1.2 or 1.3.")
        if len(kept) < _RECORD_HEADER:
            return None
        length = kept[3] << 8 | kept[4]
        if not 0 < length <= _MAX_RECORD_BYTES:
            raise WireError("The TLS record is empty or too long.")
        if self._records + _RECORD_HEADER + length > self._limit:
            raise WireError("The ClientHello is too long.", "Offer less, or resume with smaller tickets.")
        return length if len(kept) >= _RECORD_HEADER + length else None

    def _whole_message(self) -> memoryview | None:
        """Return the body of the message, or None while it is incomplete."""
        message = self._message
        if message[0] != _CLIENT_HELLO:
            raise WireError("TLS does not start with a ClientHello.")
        if len(message) < _MESSAGE_HEADER:
            return None
        end = _MESSAGE_HEADER + int.from_bytes(message[1:4])
        if end > self._limit:
            raise WireError("The ClientHello is too long.", "Offer less, or resume with smaller tickets.")
        # An upstream could read these bytes differently from the proxy.
        if len(message) > end:
            raise WireError("Something follows the ClientHello in its record.")
        return memoryview(bytes(message))[_MESSAGE_HEADER:] if len(message) == end else None


# The message ------------------------------------------------------------------------------------


class _Cursor:
    """Walks over bytes and refuses to walk past their end."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    @property
    def is_done(self) -> bool:
        return self._at == len(self._data)

    def take(self, size: int) -> memoryview:
        start, self._at = self._at, self._at + size
        if self._at > len(self._data):
            raise WireError("The ClientHello is cut short.")
        return self._data[start : self._at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def vector(self, size: int) -> memoryview:
        """Bytes behind a length that itself takes `size` bytes."""
        return self.take(self.number(size))

    def end(self) -> None:
        if not self.is_done:
            raise WireError("A length in the ClientHello does not fit.")


def _read(body: memoryview) -> ClientHello:
    cursor = _Cursor(body)
    legacy = cursor.number(2)
    if legacy >> 8 != 3 or legacy & 0xFF not in _MINOR_VERSIONS:
        raise WireError("The ClientHello has an unknown version.", "Use TLS 1.2 or 1.3.")
    cursor.take(32)
    if len(cursor.vector(1)) > 32:
        raise WireError("The session of the ClientHello is too long.")
    suites = len(cursor.vector(2))
    if not suites or suites % 2:
        raise WireError("The cipher suites of the ClientHello are malformed.")
    # Compressed TLS leaks secrets by the length of its records, so a client has to offer none.
    if 0 not in cursor.vector(1):
        raise WireError("The ClientHello asks for compression only.")
    found = {} if cursor.is_done else _extensions(cursor.vector(2))
    cursor.end()
    return ClientHello(
        sni=_server_name(found[_SERVER_NAME]) if _SERVER_NAME in found else "",
        alpn=_protocols(found[_ALPN]) if _ALPN in found else (),
        versions=_versions(found[_SUPPORTED_VERSIONS]) if _SUPPORTED_VERSIONS in found else (legacy,),
        encrypted=not _ENCRYPTED_HELLO_TYPES.isdisjoint(found),
    )


def _extensions(data: memoryview) -> dict[int, memoryview]:
    """Every extension by its type."""
    cursor = _Cursor(data)
    found: dict[int, memoryview] = {}
    while not cursor.is_done:
        kind = cursor.number(2)
        # Of two server names, the proxy and the upstream could each take another one.
        if kind in found:
            raise WireError("An extension of the ClientHello is repeated.")
        found[kind] = cursor.vector(2)
    return found


def _server_name(data: memoryview) -> str:
    outer = _Cursor(data)
    names = _Cursor(outer.vector(2))
    outer.end()
    if names.number(1) != 0:
        raise WireError("The server name of the ClientHello is not a host name.")
    name = bytes(names.vector(2))
    if not names.is_done:
        raise WireError("The ClientHello names more than one server.")
    try:
        # Latin-1 decodes every byte; the check of the host name then refuses all but ASCII.
        return canonical_wire_host(name.decode("latin-1"))
    except HostError:
        raise WireError("The server name of the ClientHello is not a valid host name.") from None


def _protocols(data: memoryview) -> tuple[str, ...]:
    outer = _Cursor(data)
    cursor = _Cursor(outer.vector(2))
    outer.end()
    names: list[str] = []
    while not cursor.is_done:
        names.append(bytes(cursor.vector(1)).decode("latin-1"))
    if not names or "" in names:
        raise WireError("The protocols of the ClientHello are malformed.")
    return tuple(names)


def _versions(data: memoryview) -> tuple[int, ...]:
    outer = _Cursor(data)
    listed = outer.vector(1)
    outer.end()
    if not listed or len(listed) % 2:
        raise WireError("The versions of the ClientHello are malformed.")
    return struct.unpack(f">{len(listed) // 2}H", listed)
