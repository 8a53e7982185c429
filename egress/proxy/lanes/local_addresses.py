"""The addresses of this machine, asked of the kernel, so that no sandbox is ever dialled back into it.

One netlink question lists every address of every interface in this network namespace with its prefix:
what is on the same link is the operator's own network, whatever its numbers. `LocalAddresses` asks again
when the last answer is some seconds old, because interfaces come and go.

What no interface shows cannot be seen here: a public address that a cloud translates to this machine, a
NAT64 prefix of one's own, a network behind a router. Those are named as `extra`.

It must not decide anything, and never answers from a list it could not read: it raises `OSError`.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterable, Iterator
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from egress.address_check import OwnNetworks, OwnSource

# The kernel is not asked for every dial: interfaces change rarely, and a few seconds bound the error.
FRESH_SECONDS: Final = 5.0

_GET_ADDRESSES: Final = 22
_NEW_ADDRESS: Final = 20
_DONE: Final = 3
_ERROR: Final = 2
_REQUEST_DUMP: Final = 0x1 | 0x300
_HEADER: Final = struct.Struct("=IHHII")
"""Length of the message, type, flags, sequence, port."""
_ADDRESS: Final = struct.Struct("=BBBBI")
"""Family, prefix length, flags, scope, interface."""
_ATTRIBUTE: Final = struct.Struct("=HH")
_PEER_OR_OWN: Final = 1
_OWN: Final = 2
_KERNEL_TIMEOUT: Final = 2.0


class LocalAddresses:
    """The machine's own networks, as `egress.address_check.OwnNetworks`; never older than some seconds."""

    def __init__(
        self,
        monotonic: Callable[[], float],
        extra: Iterable[OwnSource] = (),
        *,
        read: Callable[[], Iterable[OwnSource]] | None = None,
    ) -> None:
        """Take `extra` for what no interface shows. Raises ValueError for text that is no address."""
        self._monotonic = monotonic
        self._extra = tuple(extra)
        self._read = read or interface_addresses
        self._own = OwnNetworks(self._extra)
        self._until = float("-inf")

    def __call__(self) -> OwnNetworks:
        """Return the addresses as they are now. Raises `OSError` where the kernel does not tell."""
        now = self._monotonic()
        if now >= self._until:
            # The time moves on only after a complete list: after an error the next call asks again.
            self._own = OwnNetworks((*self._extra, *self._read()))
            self._until = now + FRESH_SECONDS
        return self._own


def interface_addresses() -> tuple[str, ...]:
    """List `address/prefix` of every interface; raises `OSError`."""
    question = _HEADER.pack(_HEADER.size + _ADDRESS.size, _GET_ADDRESSES, _REQUEST_DUMP, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0) as link:
        link.settimeout(_KERNEL_TIMEOUT)
        link.bind((0, 0))
        link.sendto(question + _ADDRESS.pack(0, 0, 0, 0, 0), (0, 0))
        found: list[str] = []
        while True:
            for kind, body in messages(link.recv(1 << 18)):
                if kind == _DONE:
                    return tuple(dict.fromkeys(found))
                if kind == _ERROR:
                    raise OSError("the kernel does not list the addresses of this machine")
                if kind == _NEW_ADDRESS:
                    found.extend(addresses(body))


def messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield type and body of every netlink message of a datagram; raises `OSError` for a cut one."""
    at = 0
    while at < len(data):
        if len(data) - at < _HEADER.size:
            raise OSError("the kernel's list of addresses is cut short")
        length, kind, *_ = _HEADER.unpack_from(data, at)
        # A list that is cut short could lack an own address, so it is refused as a whole.
        if not _HEADER.size <= length <= len(data) - at:
            raise OSError("the kernel's list of addresses is cut short")
        yield kind, data[at + _HEADER.size : at + length]
        at += _aligned(length)


def addresses(body: bytes) -> Iterator[str]:
    """Yield what one message says: its own address, and that of the peer on a point-to-point link."""
    family, prefix, *_ = _ADDRESS.unpack_from(body)
    at = _ADDRESS.size
    while at + _ATTRIBUTE.size <= len(body):
        length, kind = _ATTRIBUTE.unpack_from(body, at)
        if length < _ATTRIBUTE.size:
            raise OSError("the kernel's list of addresses is malformed")
        if kind in {_PEER_OR_OWN, _OWN} and (text := _text(family, body[at + _ATTRIBUTE.size : at + length])):
            yield f"{text}/{prefix}"
        at += _aligned(length)


def _text(family: int, packed: bytes) -> str:
    if family == socket.AF_INET:
        return str(IPv4Address(packed))
    return str(IPv6Address(packed)) if family == socket.AF_INET6 else ""


def _aligned(length: int) -> int:
    return (length + 3) & ~3
