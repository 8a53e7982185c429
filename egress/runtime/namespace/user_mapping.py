"""Which users of the machine the processes of a sandbox are. Pure.

Root takes two numbers that nobody else has, another pair for each sandbox: one for what sets the sandbox up,
one for its commands. A user without rights has himself alone, so there the commands are him, within walls
that he cannot pass from inside.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from egress.runtime.errors import UnsupportedError

_FIRST_ID: Final = 0x70000000
"""Above all that login programs, engines and systemd give out."""
_PAIR_COUNT: Final = 0x04000000
_MIN_MAPPED_IDS: Final = 65536
_NEEDED_CAPABILITIES: Final = (0, 1, 2, 6, 7, 21)
"""CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, SETGID, SETUID, SYS_ADMIN."""


@dataclass(frozen=True, slots=True)
class UserMapping:
    """Who a sandbox is outside."""

    maps: tuple[str, ...]
    """What is written as the maps of its users and groups; nothing where it is its caller."""
    outer: int
    """Who a command is, as the first process of the sandbox counts."""
    owner: int
    """Who has to own what a command may write, outside; -1 where that is the caller."""


CALLER_MAPPING: Final = UserMapping((), 0, -1)


def has_rights(status: str) -> bool:
    """Whether a process may take other users, as /proc/self/status tells."""
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    effective = int(fields.get("CapEff", "0"), 16)
    return all(effective >> number & 1 for number in _NEEDED_CAPABILITIES)


def choose_mapping(status: str, uid_map: str, number: int) -> UserMapping:
    """The users of one sandbox; `number` is any, and decides which pair it gets."""
    if not has_rights(status):
        return CALLER_MAPPING
    for line in uid_map.splitlines():
        inside, _, count = (int(field) for field in line.split())
        if inside <= _FIRST_ID and inside + count > _FIRST_ID + 2 * _PAIR_COUNT:
            return _pair_mapping(_FIRST_ID + number % _PAIR_COUNT * 2)
        if count >= _MIN_MAPPED_IDS:
            # Root of a container, with some of the machine's users: the last of them.
            half = count // 4
            return _pair_mapping(inside + count - 2 - number % half * 2)
    raise UnsupportedError(
        "root has no other users here that a sandbox could be", "run it as a user without rights instead"
    )


def _pair_mapping(first: int) -> UserMapping:
    return UserMapping((f"0 {first} 1\n1 {first + 1} 1", f"0 {first} 1\n1 {first + 1} 1"), 1, first + 1)
