"""The files that give a sandbox's user a name. Pure."""

from __future__ import annotations

from typing import Final

HOME_FOLDER: Final = "/home/sandbox"
_NOBODY_ID: Final = 65534
"""The owner of files that belong to no user of the sandbox."""


def passwd(user: int, group: int) -> bytes:
    """The contents of /etc/passwd."""
    lines = [f"sandbox:x:{user}:{group}:sandbox:{HOME_FOLDER}:/bin/sh"]
    if user != 0:
        lines.insert(0, "root:x:0:0:root:/root:/bin/sh")
    if user != _NOBODY_ID:
        lines.append(f"nobody:x:{_NOBODY_ID}:{_NOBODY_ID}:nobody:/nonexistent:/bin/false")
    return _text(lines)


def groups(group: int) -> bytes:
    """The contents of /etc/group."""
    lines = [f"sandbox:x:{group}:"]
    if group != 0:
        lines.insert(0, "root:x:0:")
    if group != _NOBODY_ID:
        lines.append(f"nogroup:x:{_NOBODY_ID}:")
    return _text(lines)


def _text(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode("ascii")
