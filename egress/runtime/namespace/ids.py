"""Which users of the machine the processes of a sandbox are. Pure.

Root takes two numbers that nobody else has, another pair for each sandbox: one for what sets the sandbox up,
one for its commands. A user without rights has himself alone, so there the commands are him, within walls
that he cannot pass from inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from egress.runtime.errors import UnsupportedError

_FIRST: Final = 0x70000000
"""Above all that login programs, engines and systemd give out."""
_PAIRS: Final = 0x04000000
_LEAST: Final = 65536
_NEEDED: Final = (0, 1, 2, 6, 7, 21)
"""CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, SETGID, SETUID, SYS_ADMIN."""


@dataclass(frozen=True, slots=True)
class Ids:
    """Who a sandbox is outside."""

    maps: tuple[str, ...]
    """What is written as the maps of its users and groups; nothing where it is its caller."""
    outer: int
    """Who a command is, as the first process of the sandbox counts."""
    owner: int
    """Who has to own what a command may write, outside; -1 where that is the caller."""


CALLER: Final = Ids((), 0, -1)


def has_rights(status: str) -> bool:
    """Whether a process may take other users, as /proc/self/status tells."""
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    effective = int(fields.get("CapEff", "0"), 16)
    return all(effective >> number & 1 for number in _NEEDED)


def choose(status: str, uid_map: str, number: int) -> Ids:
    """The users of one sandbox; `number` is any, and decides which pair it gets."""
    if not has_rights(status):
        return CALLER
    for line in uid_map.splitlines():
        inside, _, count = (int(field) for field in line.split())
        if inside <= _FIRST and inside + count > _FIRST + 2 * _PAIRS:
            return _pair(_FIRST + number % _PAIRS * 2)
        if count >= _LEAST:
            # Root of a container, with some of the machine's users: the last of them.
            half = count // 4
            return _pair(inside + count - 2 - number % half * 2)
    raise UnsupportedError(
        "root has no other users here that a sandbox could be", "run it as a user without rights instead"
    )


def _pair(first: int) -> Ids:
    return Ids((f"0 {first} 1\n1 {first + 1} 1", f"0 {first} 1\n1 {first + 1} 1"), 1, first + 1)
