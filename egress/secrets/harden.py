"""Keep the memory of this process from core files and from other processes of the same user.

A process that is not dumpable writes no core, not even to a handler, and cannot be traced or read through
`/proc` by its own user. The limit on core files is a second barrier. Root can read everything, before and
after.

An `exec` undoes the first part: call this after `capture_environment`, on every start.
"""

from __future__ import annotations

import ctypes
import os
import resource

from egress.errors import UnreadableError

_PR_GET_DUMPABLE = 3
_PR_SET_DUMPABLE = 4


def harden() -> None:
    """Make the process undumpable. Raises UnreadableError if the system refuses."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Read back after setting: a kernel that accepts the call and ignores it must be noticed.
    if _prctl(_PR_SET_DUMPABLE) != 0 or _prctl(_PR_GET_DUMPABLE) != 0:
        reason = os.strerror(ctypes.get_errno()).lower()
        raise UnreadableError(
            f"the memory of this process cannot be protected: {reason}",
            "allow prctl(PR_SET_DUMPABLE) where the process runs",
        )


def _prctl(option: int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    return int(libc.prctl(option, zero, zero, zero, zero))
