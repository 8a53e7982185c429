"""The few bytes of DNS that a responder needs which answers for one address and forwards nothing. Pure.

Theory of operation. A message is either one plain question (one QUESTION, nothing else but an optional
OPT record, every byte accounted for), or it is answered with an error that carries only its id, or not
at all. An answer repeats the question byte for byte, so the case of its letters comes back, and adds at
most one address record and one OPT record for an OPT record: it is longer than the question by 16 bytes at
most.

A name is compared in its canonical spelling; labels with a dot inside, or with bytes that host names do not
have, have none. Compression is refused: no question needs it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from enum import IntEnum
from ipaddress import IPv4Address
from typing import Final

from egress.rules.language.hosts import HostError, canonical_wire_host

MAX_MESSAGE_BYTES: Final = 1232
"""The size beyond which a datagram may be cut on its way; no question of ours is longer."""
TTL_SECONDS: Final = 5
TYPE_A: Final = 1

_HEADER: Final = struct.Struct(">HHHHHH")
_TYPE_AND_CLASS: Final = struct.Struct(">HH")
_OPT: Final = struct.Struct(">BHHIH")
_ADDRESS: Final = struct.Struct(">HHHIH4s")
_RESPONSE_FLAG: Final = 0x8000
_OPCODE_MASK: Final = 0x7800
_TRUNCATED_FLAG: Final = 0x0200
_RECURSION_DESIRED_FLAG: Final = 0x0100
_RECURSION_AVAILABLE_FLAG: Final = 0x0080
_NAME_OF_QUESTION: Final = 0xC00C
_INTERNET: Final = 1
_OPT_TYPE: Final = 41
_TRANSFERS: Final = frozenset({251, 252})
_LONGEST_NAME: Final = 255
_MAX_LABEL_BYTES: Final = 63
_PLAIN_BYTES: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_*")


class Rcode(IntEnum):
    NOERROR = 0
    FORMERR = 1
    SERVFAIL = 2
    NXDOMAIN = 3
    NOTIMP = 4
    REFUSED = 5
    BADVERS = 16


@dataclass(frozen=True, slots=True)
class DnsQuestion:
    """A plain question."""

    id: int
    recursion: bool
    wire: bytes
    """The question as it came: name, type and class."""
    name: str
    """The canonical host name; empty where the question's name has none."""
    spelled: str
    """The name as it came, for people: bytes but letters, digits, `-` and `_` are written as `\\ddd`."""
    kind: int
    """The type of record that is asked for."""
    edns: bool


@dataclass(frozen=True, slots=True)
class DnsFault:
    """A message that is answered with an error before any rule is asked."""

    id: int
    opcode: int
    recursion: bool
    rcode: Rcode
    edns: bool = False
    name: str = ""
    """The name that was asked for, canonical or as it came; empty where none could be read."""


def read_query(data: bytes) -> DnsQuestion | DnsFault | None:
    """Read a message; None for what gets no answer at all: responses, and what has no header."""
    if len(data) < _HEADER.size:
        return None
    number, flags, questions, answers, authorities, additional = _HEADER.unpack_from(data)
    if flags & _RESPONSE_FLAG:
        return None
    opcode = (flags & _OPCODE_MASK) >> 11
    fault = DnsFault(number, opcode, bool(flags & _RECURSION_DESIRED_FLAG), Rcode.FORMERR)
    if opcode:
        return replace(fault, rcode=Rcode.NOTIMP)
    if flags & _TRUNCATED_FLAG or len(data) > MAX_MESSAGE_BYTES:
        return fault
    if questions != 1 or answers or authorities or additional > 1:
        return fault
    return _read_question(data, fault, has_more=additional == 1)


def _read_question(data: bytes, fault: DnsFault, *, has_more: bool) -> DnsQuestion | DnsFault:
    labels = _labels(data)
    if labels is None:
        return fault
    name, spelled = _canonical(labels), ".".join(map(_spelled, labels))
    fault = replace(fault, name=name or spelled)
    end = _HEADER.size + sum(len(label) + 1 for label in labels) + 1
    if len(data) < end + _TYPE_AND_CLASS.size:
        return fault
    kind, space = _TYPE_AND_CLASS.unpack_from(data, end)
    end += _TYPE_AND_CLASS.size
    version = _edns_version(data[end:]) if has_more else None
    if (version is None) if has_more else (len(data) != end):
        return fault
    # The message is well-formed from here on: these refusals are answers of their own.
    if version:
        return replace(fault, rcode=Rcode.BADVERS, edns=True)
    if space != _INTERNET or kind in _TRANSFERS or not labels:
        return replace(fault, rcode=Rcode.REFUSED, edns=has_more)
    return DnsQuestion(
        id=fault.id,
        recursion=fault.recursion,
        wire=data[_HEADER.size : end],
        name=name,
        spelled=spelled,
        kind=kind,
        edns=has_more,
    )


def _labels(data: bytes) -> list[bytes] | None:
    """Return the labels of the name behind the header; None where it is compressed, too long, or cut."""
    labels: list[bytes] = []
    at = _HEADER.size
    while at < len(data) and at - _HEADER.size < _LONGEST_NAME:
        length = data[at]
        if not length:
            return labels
        if length > _MAX_LABEL_BYTES:
            return None
        labels.append(data[at + 1 : at + 1 + length])
        at += 1 + length
    return None


def _edns_version(record: bytes) -> int | None:
    """Return the version of an OPT record; None for what is not exactly one."""
    if len(record) < _OPT.size:
        return None
    name, kind, _size, more, length = _OPT.unpack_from(record)
    if name or kind != _OPT_TYPE or len(record) != _OPT.size + length:
        return None
    at = _OPT.size
    while at < len(record):
        if len(record) - at < _TYPE_AND_CLASS.size:
            return None
        at += _TYPE_AND_CLASS.size + _TYPE_AND_CLASS.unpack_from(record, at)[1]
    return int(more >> 16 & 0xFF) if at == len(record) else None


def _canonical(labels: list[bytes]) -> str:
    if any(b"." in label for label in labels):
        return ""
    try:
        return canonical_wire_host(b".".join(labels).decode("latin-1"))
    except HostError:
        return ""


def _spelled(label: bytes) -> str:
    return "".join(chr(byte) if byte in _PLAIN_BYTES else f"\\{byte:03}" for byte in label)


# Answers ----------------------------------------------------------------------------------------


def encode_fault(fault: DnsFault) -> bytes:
    """Answer with an error and nothing else."""
    return _header(
        fault.id, fault.opcode, fault.rcode, (0, 0, int(fault.edns)), recursion=fault.recursion
    ) + (_opt(fault.rcode) if fault.edns else b"")


def encode_answer(question: DnsQuestion, rcode: Rcode, address: IPv4Address | None = None) -> bytes:
    """Answer a question: with an error, with an address, or with no data."""
    counts = (1, int(address is not None), int(question.edns))
    parts = [_header(question.id, 0, rcode, counts, recursion=question.recursion), question.wire]
    if address is not None:
        parts.append(_ADDRESS.pack(_NAME_OF_QUESTION, TYPE_A, _INTERNET, TTL_SECONDS, 4, address.packed))
    if question.edns:
        parts.append(_opt(rcode))
    return b"".join(parts)


def _header(
    number: int, opcode: int, rcode: Rcode, counts: tuple[int, int, int], *, recursion: bool
) -> bytes:
    questions, answers, additional = counts
    flags = _RESPONSE_FLAG | opcode << 11 | _RECURSION_AVAILABLE_FLAG | rcode & 0xF
    if recursion:
        flags |= _RECURSION_DESIRED_FLAG
    return _HEADER.pack(number, flags, questions, answers, 0, additional)


def _opt(rcode: Rcode) -> bytes:
    # The upper bits of a code that does not fit into the header stand here.
    return _OPT.pack(0, _OPT_TYPE, MAX_MESSAGE_BYTES, rcode >> 4 << 24, 0)
