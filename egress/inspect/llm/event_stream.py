"""The binary event stream of AWS: messages with headers, a payload and two checksums.

A message is twelve bytes of prelude (its length, that of its headers, a checksum of both), the headers, the
payload, and a checksum of all of it. Bytes whose checksums are wrong were changed on the way, or are none of
this format.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final

from egress.errors import WireError
from egress.types import value_class

MAX_EVENT_MESSAGE_BYTES: Final = 16 << 20
_PRELUDE: Final = struct.Struct(">II")
_CHECKSUM: Final = struct.Struct(">I")
_PRELUDE_BYTES: Final = 12
_TEXT_TYPE: Final = 7
_FIXED_BYTES: Final = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""The length of a header's value by its type; texts and bytes state theirs."""
_COUNTED_TYPES: Final = frozenset({6, _TEXT_TYPE})


@value_class
class EventMessage:
    """A message of the stream."""

    name: str
    """Its `:event-type`, or `:exception-type`."""
    payload: bytes


class EventStreamReader:
    """Cuts a stream into messages. It keeps at most one of them."""

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[EventMessage]:
        """Take the next bytes; yield the messages that they complete. To be run to its end.

        Raises `WireError` for bytes that are no message.
        """
        self._pending += data
        while len(self._pending) >= _PRELUDE_BYTES:
            length, header_bytes = _PRELUDE.unpack_from(self._pending)
            # The prelude has a checksum of its own: a wrong length must not be waited for.
            if zlib.crc32(self._pending[:8]) != _CHECKSUM.unpack_from(self._pending, 8)[0]:
                raise WireError("The checksum of an event stream is wrong.")
            payload_at = _PRELUDE_BYTES + header_bytes
            if not payload_at + _CHECKSUM.size <= length <= MAX_EVENT_MESSAGE_BYTES:
                raise WireError("The length of a message of an event stream is out of range.")
            if len(self._pending) < length:
                return
            message = bytes(self._pending[:length])
            del self._pending[:length]
            body_end = length - _CHECKSUM.size
            if zlib.crc32(message[:body_end]) != _CHECKSUM.unpack_from(message, body_end)[0]:
                raise WireError("The checksum of an event stream is wrong.")
            headers = _headers(message[_PRELUDE_BYTES:payload_at])
            name = headers.get(":event-type") or headers.get(":exception-type", "")
            yield EventMessage(name, message[payload_at:body_end])

    def end(self) -> None:
        """Raises `WireError` if the stream ends within a message."""
        if self._pending:
            raise WireError("An event stream ends within a message.")


def _headers(data: bytes) -> dict[str, str]:
    """Return the headers that are texts."""
    found: dict[str, str] = {}
    at = 0
    try:
        while at < len(data):
            name_end = at + 1 + data[at]
            name = data[at + 1 : name_end].decode("utf-8")
            kind = data[name_end]
            at = name_end + 1
            if kind in _COUNTED_TYPES:
                size = int.from_bytes(data[at : at + 2], "big")
                at += 2
            else:
                size = _FIXED_BYTES[kind]
            value = data[at : at + size]
            at += size
            if at > len(data) or not name:
                raise WireError("A header of an event stream is cut off.")
            if kind == _TEXT_TYPE:
                found[name] = value.decode("utf-8")
    except (IndexError, KeyError, UnicodeDecodeError):
        raise WireError("A header of an event stream is malformed.") from None
    return found


def event_message(name: str, payload: bytes) -> bytes:
    """Write a message, as a server does."""
    headers = b"".join(
        bytes([len(key)]) + key.encode() + bytes([_TEXT_TYPE]) + len(text).to_bytes(2, "big") + text.encode()
        for key, text in (
            (":event-type", name),
            (":content-type", "application/json"),
            (":message-type", "event"),
        )
    )
    prelude = _PRELUDE.pack(_PRELUDE_BYTES + len(headers) + len(payload) + _CHECKSUM.size, len(headers))
    head = prelude + _CHECKSUM.pack(zlib.crc32(prelude)) + headers + payload
    return head + _CHECKSUM.pack(zlib.crc32(head))
