"""The expressions of which rules of the packet filter are made: load a value, compare it, and decide."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Final

from egress.netlock.netlink import attribute, nested, number32, text

_VERDICT_REGISTER: Final = 0
_REGISTER: Final = 1
_ACCEPT: Final = 1
_EXPRESSION, _NAME, _DATA = 1, 1, 2
_EQUAL, _UNEQUAL = 0, 1
_NETWORK_HEADER, _TRANSPORT_HEADER = 1, 2
_OUTPUT_DEVICE, _USER, _FAMILY, _PROTOCOL = 5, 10, 15, 16
_CONNECTION_STATE, _CONNECTION_DIRECTION = 0, 1
_ESTABLISHED: Final = 2
_REPLY: Final = 1
_TCP_RESET, _ANY_UNREACHABLE = 1, 2
_ADMINISTRATIVELY_PROHIBITED: Final = 3


class Protocol(IntEnum):
    """A transport protocol, by its number in the IP header."""

    TCP = 6
    UDP = 17


def owner_is(user: int) -> tuple[bytes, ...]:
    """The socket belongs to this user. A packet without a socket has no user, and does not match."""
    return _meta(_USER), _compare(struct.pack("=I", user))


def leaves_by(device: int) -> tuple[bytes, ...]:
    """The packet leaves by the network device of this index."""
    return _meta(_OUTPUT_DEVICE), _compare(struct.pack("=I", device))


def is_protocol(protocol: Protocol) -> tuple[bytes, ...]:
    """The packet is of this transport protocol."""
    return _meta(_PROTOCOL), _compare(bytes([protocol]))


def port_is(port: int) -> tuple[bytes, ...]:
    """The packet goes to this port; the protocol has to be compared before."""
    return _payload(_TRANSPORT_HEADER, 2, 2), _compare(struct.pack(">H", port))


def goes_to_loopback() -> tuple[bytes, ...]:
    """The packet goes to an address of 127.0.0.0/8."""
    return _meta(_FAMILY), _compare(b"\x02"), _payload(_NETWORK_HEADER, 16, 1), _compare(b"\x7f")


def answers_a_connection() -> tuple[bytes, ...]:
    """The packet belongs to a connection that somebody else has opened to this network."""
    established = struct.pack("=I", _ESTABLISHED)
    masked = _expression(
        "bitwise",
        number32(1, _REGISTER),
        number32(2, _REGISTER),
        number32(3, len(established)),
        nested(4, attribute(1, established)),
        nested(5, attribute(1, bytes(len(established)))),
    )
    return (
        _connection(_CONNECTION_DIRECTION),
        _compare(bytes([_REPLY])),
        _connection(_CONNECTION_STATE),
        masked,
        _compare(bytes(len(established)), _UNEQUAL),
    )


def accept() -> bytes:
    """Let the packet pass."""
    verdict = nested(2, number32(1, _ACCEPT))
    return _expression("immediate", number32(1, _VERDICT_REGISTER), nested(2, verdict))


def redirect() -> bytes:
    """Send the packet to the same port of this machine."""
    return _expression("redir")


def reset() -> bytes:
    """Refuse a TCP packet, so that its sender fails at once."""
    return _expression("reject", number32(1, _TCP_RESET), attribute(2, b"\0"))


def prohibit() -> bytes:
    """Refuse a packet, and tell its sender that it is prohibited."""
    code = bytes([_ADMINISTRATIVELY_PROHIBITED])
    return _expression("reject", number32(1, _ANY_UNREACHABLE), attribute(2, code))


def _meta(key: int) -> bytes:
    return _expression("meta", number32(2, key), number32(1, _REGISTER))


def _connection(key: int) -> bytes:
    return _expression("ct", number32(1, _REGISTER), number32(2, key))


def _payload(base: int, offset: int, length: int) -> bytes:
    return _expression(
        "payload", number32(1, _REGISTER), number32(2, base), number32(3, offset), number32(4, length)
    )


def _compare(value: bytes, how: int = _EQUAL) -> bytes:
    return _expression("cmp", number32(1, _REGISTER), number32(2, how), nested(3, attribute(1, value)))


def _expression(name: str, *data: bytes) -> bytes:
    return nested(_EXPRESSION, text(_NAME, name), nested(_DATA, *data))
