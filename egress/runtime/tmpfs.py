"""A disk of limited size: a tmpfs, and the memory that it takes. Pure.

Theory of operation. Folders of a real disk can be limited only on some file systems and engines, and mostly
by root. A tmpfs can be limited on every machine by every user, and writing past its end fails as on a full
disk. Its pages count as memory of the writer, so the sandbox gets that much memory in addition; otherwise its
files would take the memory of its programs. Empty files take memory as well, so their number is limited.

The disk lasts from a start of the sandbox to its stop. A stopped sandbox holds no memory.
"""

from __future__ import annotations

from typing import Final

from egress.runtime.spec import MIB, SandboxLimits

FILES_PER_MIB: Final = 256
"""The limit of files for each MiB: one for each page of 4 KiB."""
_BYTES_PER_FILE: Final = 1280
"""Bytes of kernel memory for each file: about 1040, and more for a long name."""


def options(mib: int, owner: tuple[int, int] | None = None, mode: int = 0o755) -> str:
    """The mount options of such a tmpfs. Without an owner its root belongs to the mounting user."""
    found = f"size={mib}m,nr_inodes={mib * FILES_PER_MIB},mode={mode:04o}"
    return found if owner is None else f"{found},uid={owner[0]},gid={owner[1]}"


def memory_limit(limits: SandboxLimits) -> int:
    """The memory limit of a sandbox in bytes: its programs plus its limited disk."""
    disk = limits.disk_mib or 0
    return limits.memory_mib * MIB + disk * MIB + disk * FILES_PER_MIB * _BYTES_PER_FILE
