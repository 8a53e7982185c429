"""The binary event stream: botocore reads the same, and nothing with a wrong checksum is read."""

from __future__ import annotations

import struct
import zlib

import pytest

from egress.errors import WireError
from egress.inspect.llm.event_stream import (
    MAX_EVENT_MESSAGE_BYTES,
    EventMessage,
    EventStreamReader,
    event_message,
)

STREAM = event_message("messageStart", b'{"role":"assistant"}') + event_message("metadata", b"{}")


def read(*pieces: bytes) -> list[EventMessage]:
    reader = EventStreamReader()
    found = [message for piece in pieces for message in reader.feed(piece)]
    reader.end()
    return found


def test_messages_do_not_depend_on_the_pieces() -> None:
    whole = read(STREAM)
    assert [(each.name, each.payload) for each in whole] == [
        ("messageStart", b'{"role":"assistant"}'),
        ("metadata", b"{}"),
    ]
    for cut in range(len(STREAM)):
        assert read(STREAM[:cut], STREAM[cut:]) == whole


def test_vector_22_a_changed_bit_is_found_wherever_it_is() -> None:
    message = event_message("metadata", b'{"usage":{"inputTokens":1}}')
    for at in range(len(message)):
        changed = bytearray(message)
        changed[at] ^= 1
        with pytest.raises(WireError):
            read(bytes(changed))


def test_a_stream_that_ends_within_a_message_is_broken() -> None:
    with pytest.raises(WireError):
        read(STREAM[:-1])


def prelude(length: int, headers: int) -> bytes:
    head = struct.pack(">II", length, headers)
    return head + struct.pack(">I", zlib.crc32(head))


@pytest.mark.parametrize(
    ("length", "headers"), [(15, 0), (0, 0), (MAX_EVENT_MESSAGE_BYTES + 1, 0), (100, 85), (100, 2**32 - 1)]
)
def test_a_length_out_of_range_is_not_waited_for(length: int, headers: int) -> None:
    with pytest.raises(WireError):
        list(EventStreamReader().feed(prelude(length, headers)))


@pytest.mark.parametrize(
    "headers",
    [b"\x00\x07\x00\x00", b"\x01a", b"\x01a\x07\x00\x05hi", b"\x01a\x0a", b"\x05ab", b"\x01\xff\x07\x00\x00"],
)
def test_malformed_headers_are_refused(headers: bytes) -> None:
    head = prelude(16 + len(headers), len(headers)) + headers
    with pytest.raises(WireError):
        list(EventStreamReader().feed(head + struct.pack(">I", zlib.crc32(head))))


def test_headers_of_other_types_are_passed_over() -> None:
    headers = b"\x01n\x00\x01i\x04abcd\x01t\x08abcdefgh\x01b\x06\x00\x02xy\x01u\x09" + b"u" * 16
    headers += b"\x0b:event-type\x07\x00\x01e"
    head = prelude(16 + len(headers), len(headers)) + headers
    assert read(head + struct.pack(">I", zlib.crc32(head))) == [EventMessage("e", b"")]
