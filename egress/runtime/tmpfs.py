"""A disk whose size is bounded: a file system of memory, and the memory that it takes. Pure.

Theory of operation. What is written below a folder of a real disk can be bounded on some file systems, by
some engines, and mostly by root alone. A file system of memory is bounded on every machine, by anybody, and
writing past its end fails as on a disk that is full. Its pages are counted as memory of whoever wrote them,
so a sandbox gets that much more, or its files would take what was promised to its programs. Files without
content take memory as well, and are bounded by their number.

It lasts from a start of the sandbox to its stop. A sandbox that does not run holds no memory.
"""

from __future__ import annotations

from typing import Final

from egress.runtime.spec import MIB, SandboxLimits

FILES_PER_MIB: Final = 256
"""How many files there may be for each MiB: as many as have any content at all, in pages of 4 KiB."""
_BYTES_PER_FILE: Final = 1280
"""Bytes that the kernel keeps of a file, with its name. It takes about 1040, and more for a long name."""


def options(mib: int, owner: tuple[int, int] | None = None, mode: int = 0o755) -> str:
    """How such a file system is mounted. Without an owner its root is that of whoever mounts it."""
    found = f"size={mib}m,nr_inodes={mib * FILES_PER_MIB},mode={mode:04o}"
    return found if owner is None else f"{found},uid={owner[0]},gid={owner[1]}"


def memory_limit(limits: SandboxLimits) -> int:
    """The bytes of memory that a sandbox may have in all: for its programs, and for its bounded disk."""
    disk = limits.disk_mib or 0
    return limits.memory_mib * MIB + disk * MIB + disk * FILES_PER_MIB * _BYTES_PER_FILE
