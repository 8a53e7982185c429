"""The user that owns the other end of a local TCP connection.

The kernel is asked for the peer's socket, by the pair of addresses: over a netlink socket, which costs
the same however many connections there are, or from the table under /proc where the kernel offers
no netlink. Only a socket that a process still holds counts: the remains of closed sockets show uid 0.
Any doubt means None.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Final

Address = tuple[str, int]
"""An IP address in text and a port."""

_SOCK_DIAG_BY_FAMILY: Final = 20
_NLM_F_REQUEST: Final = 1
_NLMSG_ERROR: Final = 2
_HEADER: Final = struct.Struct("=IHHII")
_QUESTION: Final = struct.Struct("=BBBBI")
_ANSWER: Final = struct.Struct("=BBBB2s2s44sIIIII")
_ANY_COOKIE: Final = b"\xff" * 8

_HELD_STATES: Final = frozenset({1, 4, 5, 8})
"""Established, and the three states in which one side has closed while a process may hold the socket."""

_SOCKET_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def owner_of(peer: Address, local: Address) -> int | None:
    """Return the uid that owns the socket at `peer` connected to `local`; None where nobody can tell."""
    try:
        remote, here = _plain(peer), _plain(local)
    except ValueError:
        return None
    try:
        return _ask_kernel(remote, here)
    except OSError:
        # Tables are long, and a peer that is gone already must not make us read them.
        return None if _can_ask_about(here) else _find_in_tables(remote, here)


def _can_ask_about(local: tuple[bytes, int]) -> bool:
    """Tell whether the kernel finds our own listening socket, which surely exists."""
    try:
        _ask_kernel(local, (bytes(len(local[0])), 0))
    except OSError:
        return False
    return True


def _plain(address: Address) -> tuple[bytes, int]:
    """The bytes of an address; a mapped one is the IPv4 address it stands for."""
    ip = ip_address(address[0].partition("%")[0])
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return ip.packed, address[1]


# Asking the kernel ------------------------------------------------------------------------------


def _ask_kernel(peer: tuple[bytes, int], local: tuple[bytes, int]) -> int | None:
    question = _question(peer, local)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 4) as link:
        link.send(question)
        # Netlink has answered before `send` returns.
        return _read_answer(link.recv(8192, socket.MSG_DONTWAIT), peer[1], local[1])


def _question(peer: tuple[bytes, int], local: tuple[bytes, int]) -> bytes:
    family = socket.AF_INET if len(peer[0]) == 4 else socket.AF_INET6
    body = (
        _QUESTION.pack(family, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF)
        + struct.pack("!HH", peer[1], local[1])
        + peer[0].ljust(16, b"\0")
        + local[0].ljust(16, b"\0")
        + struct.pack("=I", 0)
        + _ANY_COOKIE
    )
    return _HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0) + body


def _read_answer(data: bytes, peer_port: int, local_port: int) -> int | None:
    _, kind, *_ = _HEADER.unpack_from(data)
    if kind == _NLMSG_ERROR:
        code = -struct.unpack_from("=i", data, _HEADER.size)[0]
        raise OSError(code, "the kernel did not find the socket")
    if kind != _SOCK_DIAG_BY_FAMILY:
        return None
    fields = _ANSWER.unpack_from(data, _HEADER.size)
    state, source, target, uid, inode = fields[1], fields[4], fields[5], fields[10], fields[11]
    # Without a connection the kernel falls back to a socket that listens there: not the peer.
    matches = (source, target) == (struct.pack("!H", peer_port), struct.pack("!H", local_port))
    return uid if matches and state in _HELD_STATES and inode else None


# Reading the table ------------------------------------------------------------------------------


def _find_in_tables(peer: tuple[bytes, int], local: tuple[bytes, int]) -> int | None:
    for table in _SOCKET_TABLES:
        try:
            with table.open(encoding="ascii") as lines:
                found = find_in_table(lines, peer, local)
        except OSError:
            continue
        if found is not None:
            return found
    return None


def find_in_table(lines: Iterable[str], peer: tuple[bytes, int], local: tuple[bytes, int]) -> int | None:
    """Return the uid of the connection among the lines of a table of TCP sockets."""
    wanted = {(_spelt(*peer), _spelt(*local)), (_spelt_mapped(*peer), _spelt_mapped(*local))}
    for line in lines:
        fields = line.split()
        if len(fields) > 9 and (fields[1], fields[2]) in wanted:
            held = fields[3].isalnum() and int(fields[3], 16) in _HELD_STATES and fields[9] != "0"
            return int(fields[7]) if held else None
    return None


def _spelt(address: bytes, port: int) -> str:
    """The spelling of the table: words of the machine's byte order, in hexadecimal."""
    words = struct.unpack(f"={len(address) // 4}I", address)
    return "".join(f"{word:08X}" for word in words) + f":{port:04X}"


def _spelt_mapped(address: bytes, port: int) -> str:
    """How a client that uses an IPv6 socket for IPv4 is listed."""
    return _spelt(b"\0" * 10 + b"\xff\xff" + address if len(address) == 4 else address, port)
