"""Keep the memory of this process from core files and from other processes of the same user.

A process that is not dumpable writes no core, to no handler either, and cannot be traced or read through
`/proc` by its own user. The limit on core files is a second lock. Root reads everything, before and after.

An `exec` undoes the first half: to be called after `environ.take`, on every start.
"""

from __future__ import annotations

import ctypes
import os
import resource

from egress.errors import UnreadableError

_PR_GET_DUMPABLE = 3
_PR_SET_DUMPABLE = 4


def harden() -> None:
    """Make the process undumpable. Raises UnreadableError when the system does not let it."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if _prctl(_PR_SET_DUMPABLE) != 0 or _prctl(_PR_GET_DUMPABLE) != 0:
        reason = os.strerror(ctypes.get_errno()).lower()
        raise UnreadableError(
            f"the memory of this process cannot be kept from others: {reason}",
            "allow prctl(PR_SET_DUMPABLE) where the process runs",
        )


def _prctl(option: int) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    return int(libc.prctl(option, zero, zero, zero, zero))
