"""DNS messages, put together and taken apart by hand: the tests must not trust the code they test."""

from __future__ import annotations

import struct
from dataclasses import dataclass

A, NS, PTR, MX, TXT, AAAA, SVCB, HTTPS, ANY = 1, 2, 12, 15, 16, 28, 64, 65, 255
NOERROR, FORMERR, SERVFAIL, NXDOMAIN, NOTIMP, REFUSED = range(6)
OPT = b"\x00\x00\x29\x10\x00\x00\x00\x00\x00\x00\x00"


def wire_name(*labels: bytes) -> bytes:
    return b"".join(bytes([len(label)]) + label for label in labels) + b"\x00"


def query(
    name: str | bytes,
    kind: int = A,
    *,
    number: int = 0x1234,
    flags: int = 0x0100,
    space: int = 1,
    counts: tuple[int, int, int, int] = (1, 0, 0, 0),
    more: bytes = b"",
) -> bytes:
    """One question; a name in bytes is on the wire as it is."""
    raw = wire_name(*(label.encode() for label in name.split("."))) if isinstance(name, str) else name
    return struct.pack(">6H", number, flags, *counts) + raw + struct.pack(">HH", kind, space) + more


def edns(name: str, kind: int = A, record: bytes = OPT) -> bytes:
    """One question with an OPT record."""
    return query(name, kind, counts=(1, 0, 0, 1), more=record)


@dataclass(frozen=True, slots=True)
class Told:
    """An answer, as a client reads it."""

    number: int
    rcode: int
    question: bytes
    addresses: tuple[str, ...]
    ttl: int
    has_opt: bool
    flags: int


def told(data: bytes | None) -> Told:
    """Take an answer apart; every byte must be accounted for."""
    assert data is not None
    number, flags, questions, answers, authorities, additional = struct.unpack_from(">6H", data)
    assert flags & 0x8000, "an answer says that it is one"
    assert authorities == 0
    at, question = 12, b""
    if questions:
        end = at
        while data[end]:
            end += 1 + data[end]
        end += 5
        question, at = data[at:end], end
    addresses: list[str] = []
    ttl = 0
    for _ in range(answers):
        pointer, kind, space, ttl, length = struct.unpack_from(">HHHIH", data, at)
        assert (pointer, kind, space, length) == (0xC00C, A, 1, 4)
        addresses.append(".".join(map(str, data[at + 12 : at + 16])))
        at += 16
    rcode = flags & 0xF
    if additional:
        root, kind, size, more, length = struct.unpack_from(">BHHIH", data, at)
        assert (root, kind, size, length) == (0, 41, 1232, 0)
        rcode |= more >> 24 << 4
        at += 11
    assert at == len(data)
    return Told(number, rcode, question, tuple(addresses), ttl, bool(additional), flags)
