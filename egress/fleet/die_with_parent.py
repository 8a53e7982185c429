"""A program that becomes another one, tied to the process that began it: when that ends, so does this.

    python -I -S tether.py PARENT PROGRAM ARGUMENT...

The kernel sends the signal, also where the parent was killed. It is sent when the *thread* that began it
ends, so that has to be one that lasts.
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
    """Become the program. Ends with 3 where the parent has gone by now."""
    parent, program = int(words[0]), words[1:]
    libc = ctypes.CDLL(None, use_errno=True)
    is_tied = libc.prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGTERM)) == 0
    # It may have ended before the line above.
    if not is_tied or os.getppid() != parent:
        sys.exit(_PARENT_GONE_STATUS)
    os.execv(program[0], program)  # noqa: S606 - no shell wanted


if __name__ == "__main__":
    main(sys.argv[1:])
