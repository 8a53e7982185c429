"""Runs a program that ends with the process that started it.

    python -I -S die_with_parent.py PARENT PROGRAM ARGUMENT...

The kernel sends the signal, even if the parent was killed. The kernel sends it when the *thread* that started
this process ends, so that thread has to live as long as the parent.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final, NoReturn

_PR_SET_PDEATHSIG: Final = 1
_PARENT_GONE_STATUS: Final = 3


def main(words: list[str]) -> NoReturn:
    """Become the program. Exits with 3 if the parent has already ended."""
    parent, program = int(words[0]), words[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    is_tied = libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGTERM)) == 0
    # The parent may have ended before prctl: then the kernel never sends the signal.
    if not is_tied or os.getppid() != parent:
        sys.exit(_PARENT_GONE_STATUS)
    os.execv(program[0], program)  # noqa: S606 - no shell wanted


if __name__ == "__main__":
    main(sys.argv[1:])
