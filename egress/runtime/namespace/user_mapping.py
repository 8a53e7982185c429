"""Chooses the host user ids that a sandbox's processes run as. Pure.

Root takes two ids that no other program uses, a new pair for each sandbox: one that sets the sandbox up, one
for its commands. An unprivileged user only has his own id, so commands run as him, confined by namespaces
that they cannot leave.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from egress.runtime.errors import UnsupportedError

_FIRST_ID: Final = 0x70000000
"""Above the ids that login programs, engines and systemd assign."""
_PAIR_COUNT: Final = 0x04000000
_MIN_MAPPED_IDS: Final = 65536
_NEEDED_CAPABILITIES: Final = (0, 1, 2, 6, 7, 21)
"""CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, SETGID, SETUID, SYS_ADMIN."""


@dataclass(frozen=True, slots=True)
class UserMapping:
    """The identity of a sandbox outside of it."""

    maps: tuple[str, ...]
    """The user and group maps of its namespace; empty if it runs as the caller."""
    outer: int
    """The user of commands as the outer namespace counts."""
    owner: int
    """The host owner of files that commands write; -1 for the caller."""


CALLER_MAPPING: Final = UserMapping((), 0, -1)


def has_rights(status: str) -> bool:
    """Return whether a process may use other users' ids, by /proc/self/status."""
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    effective = int(fields.get("CapEff", "0"), 16)
    return all(effective >> number & 1 for number in _NEEDED_CAPABILITIES)


def choose_mapping(status: str, uid_map: str, number: int) -> UserMapping:
    """The ids of one sandbox; `number` is random, and selects the pair."""
    if not has_rights(status):
        return CALLER_MAPPING
    for line in uid_map.splitlines():
        inside, _, count = (int(field) for field in line.split())
        if inside <= _FIRST_ID and inside + count > _FIRST_ID + 2 * _PAIR_COUNT:
            return _pair_mapping(_FIRST_ID + number % _PAIR_COUNT * 2)
        if count >= _MIN_MAPPED_IDS:
            # Root of a container with a range of the machine's ids: take from the end of the range.
            half = count // 4
            return _pair_mapping(inside + count - 2 - number % half * 2)
    raise UnsupportedError(
        "no user ids are available for sandboxes here", "run egress as an unprivileged user instead"
    )


def _pair_mapping(first: int) -> UserMapping:
    return UserMapping((f"0 {first} 1\n1 {first + 1} 1", f"0 {first} 1\n1 {first + 1} 1"), 1, first + 1)
