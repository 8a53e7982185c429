"""The owner of a port, from the kernel's socket tables and the processes that this user may inspect.

A process of another user does not show its sockets; only its user is then known. The answer is a part of a
sentence, or empty.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Final

from egress.proxy.setting_values import ListenAddress

_PROC: Final = Path("/proc")
_SOCKET_TABLES: Final = ("net/tcp", "net/tcp6", "net/udp", "net/udp6")
_WAITING_STATES: Final = frozenset({"0A", "07"})
"""The states of a TCP socket that listens, and of a UDP socket that is bound."""


@dataclass(frozen=True, slots=True)
class BoundSocket:
    """A socket that waits for others."""

    address: IPv4Address | IPv6Address
    port: int
    uid: int
    inode: str


def owner_of_port(at: ListenAddress, proc: Path = _PROC) -> str:
    """Say who has this port, as `nginx (pid 42)`; empty where nobody can tell."""
    found = [bound for bound in sockets(proc) if bound.port == at.port and _overlap(bound.address, at.host)]
    if not found:
        return ""
    inodes = {f"socket:[{bound.inode}]" for bound in found}
    pid = next((pid for pid in _pids(proc) if inodes & _held(proc / pid)), None)
    if pid is None:
        return f"a process of the user with the number {found[0].uid}"
    try:
        name = (proc / pid / "comm").read_text("ascii", "replace").strip()
        # A process names itself as it likes.
        return f"{re.sub(r'[^ -~]', '?', name)} (pid {pid})"
    except OSError:
        return f"the process {pid}"


def sockets(proc: Path) -> Iterator[BoundSocket]:
    """Every socket in the tables of the kernel that waits for others."""
    for table in _SOCKET_TABLES:
        try:
            lines = (proc / table).read_text("ascii").splitlines()[1:]
        except OSError:
            continue
        yield from rows(lines)


def rows(lines: Iterable[str]) -> Iterator[BoundSocket]:
    """The rows of one table that are of sockets which wait; others are left out."""
    for line in lines:
        fields = line.split()
        if len(fields) > 9 and fields[3] in _WAITING_STATES:
            address, _, port = fields[1].partition(":")
            yield BoundSocket(_address(address), int(port, 16), int(fields[7]), fields[9])


def _address(text: str) -> IPv4Address | IPv6Address:
    """An address as the kernel writes it: words in the byte order of the machine."""
    words = [int(text[at : at + 8], 16) for at in range(0, len(text), 8)]
    return ip_address(struct.pack(f"={len(words)}I", *words))


def _overlap(bound: IPv4Address | IPv6Address, host: str) -> bool:
    wanted = ip_address(host)
    return bound == wanted or bound.is_unspecified or wanted.is_unspecified


def _pids(proc: Path) -> Iterator[str]:
    return (entry.name for entry in proc.iterdir() if entry.name.isdigit())


def _held(process: Path) -> set[str]:
    """Return the targets of a process's descriptors; empty if the process may not be inspected."""
    held = set()
    try:
        for descriptor in (process / "fd").iterdir():
            held.add(os.readlink(descriptor))  # noqa: PTH115 - no file stands there
    except OSError:
        # The process ended, or belongs to another user.
        pass
    return held
