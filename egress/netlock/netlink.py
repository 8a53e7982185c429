"""Netlink messages to the packet filter of the kernel, and its answers.

A message is a header and attributes, each with its length in front. Numbers inside of attributes are in
network byte order; the headers are in the machine's own. All messages between the begin and the end of a
batch come into force together, or none does.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from egress.errors import UnreadableError, reason_of

_HEADER: Final = struct.Struct("=IHHII")
"""Length, type, flags, sequence number, port."""
_ERROR: Final = struct.Struct("=i")
_NETFILTER: Final = 12
_SUBSYSTEM: Final = 10 << 8
"""The packet filter of nftables among all parts of netfilter."""
_BATCH_BEGIN: Final = 0x10
_BATCH_END: Final = 0x11
_ERROR_TYPE: Final = 2
_REQUEST, _ACK, _CREATE, _APPEND = 0x1, 0x4, 0x400, 0x800
_INET_FAMILY: Final = 1
"""Tables of this family see IPv4 and IPv6."""
_ANSWER_SECONDS: Final = 10.0
_MAX_ANSWER_BYTES: Final = 256 * 1024


@dataclass(frozen=True, slots=True)
class FilterMessage:
    """One change of the packet filter."""

    kind: int
    attributes: bytes
    creates: bool = True


def attribute(number: int, value: bytes) -> bytes:
    """Encode an attribute, padded to four bytes."""
    length = 4 + len(value)
    return struct.pack("=HH", length, number) + value + bytes(-length % 4)


def nested(number: int, *parts: bytes) -> bytes:
    """Encode an attribute whose value is attributes."""
    return attribute(number | 0x8000, b"".join(parts))


def number32(number: int, value: int) -> bytes:
    """Encode an attribute that is a number of four bytes."""
    return attribute(number, struct.pack(">i" if value < 0 else ">I", value))


def text(number: int, value: str) -> bytes:
    """Encode an attribute that is a string."""
    return attribute(number, value.encode("ascii") + b"\0")


def batch(messages: Sequence[FilterMessage]) -> bytes:
    """Encode changes that come into force together; message N has the sequence number N."""
    parts = [_message(_BATCH_BEGIN, _REQUEST, 0, 0, b"", 10)]
    for number, each in enumerate(messages, 1):
        flags = _REQUEST | _ACK | (_CREATE | _APPEND if each.creates else 0)
        parts.append(_message(_SUBSYSTEM | each.kind, flags, number, _INET_FAMILY, each.attributes, 0))
    parts.append(_message(_BATCH_END, _REQUEST, len(messages) + 1, 0, b"", 10))
    return b"".join(parts)


def apply_batch(messages: Sequence[FilterMessage]) -> None:
    """Put changes into force. Raises `UnreadableError` unless the kernel confirms each of them."""
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETFILTER) as channel:
            channel.settimeout(_ANSWER_SECONDS)
            channel.bind((0, 0))
            channel.send(batch(messages))
            waiting = set(range(1, len(messages) + 1))
            while waiting:
                waiting -= _confirmed(channel.recv(_MAX_ANSWER_BYTES))
    except (OSError, ValueError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else str(error)
        raise UnreadableError(
            f"the packet filter of this network cannot be set: {reason}",
            "run it as root with the capability NET_ADMIN, under a kernel that has nftables; "
            "sandboxes of gVisor and Kata have none",
        ) from None


def _confirmed(data: bytes) -> set[int]:
    """Return the sequence numbers that are confirmed. Raises `OSError` for an error among them."""
    answers = dict(read_answers(data))
    for code in filter(None, answers.values()):
        raise OSError(code, os.strerror(code))
    return set(answers)


def read_answers(data: bytes) -> Iterator[tuple[int, int]]:
    """Return the sequence number and the error of each confirmation; 0 is success. Raises `ValueError`."""
    at = 0
    while at < len(data):
        if len(data) - at < _HEADER.size:
            raise ValueError("the kernel sent a message that is cut short")
        length, kind, _, number, _ = _HEADER.unpack_from(data, at)
        if length < _HEADER.size or length > len(data) - at:
            raise ValueError("the kernel sent a message of a wrong length")
        if kind == _ERROR_TYPE:
            if length < _HEADER.size + _ERROR.size:
                raise ValueError("the kernel sent a confirmation that is cut short")
            (code,) = _ERROR.unpack_from(data, at + _HEADER.size)
            yield number, -code
        at += length + (-length % 4)


def _message(kind: int, flags: int, number: int, family: int, body: bytes, resource: int) -> bytes:
    data = struct.pack("=BB", family, 0) + struct.pack(">H", resource) + body
    return _HEADER.pack(_HEADER.size + len(data), kind, flags, number, 0) + data
