"""The start of a proxy that another process holds back.

A process that needs a proxy starts it at once, and has other things to find out meanwhile. The proxy loads
all that takes long, opens nothing, and waits on standard input: a line lets it go on, an end makes it exit.
When it serves, it writes a line to standard output. From the wait on, both standard streams lead nowhere,
because a program that gives the proxy a secret inherits them.
"""

from __future__ import annotations

import fcntl
import os
import sys
from typing import Final

_STDIN: Final = 0
_STDOUT: Final = 1
_FIRST_FREE_DESCRIPTOR: Final = 3
SERVING_LINE: Final = b"serving\n"


class HeldStart:
    """The two streams to the process that holds this one back."""

    def __init__(self) -> None:
        """Take the standard streams. Call after the process has executed itself for the last time."""
        sys.stdout.flush()
        self._commands, self._reports = _private_copy(_STDIN), _private_copy(_STDOUT)
        nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.dup2(nowhere, _STDIN)
            os.dup2(nowhere, _STDOUT)
        finally:
            os.close(nowhere)

    def wait(self) -> bool:
        """Wait for the word to go on; False if the other process gave up, or has ended."""
        try:
            return os.read(self._commands, 1) != b""
        except OSError:
            return False
        finally:
            os.close(self._commands)

    def report_serving(self) -> None:
        """Tell the other process that the proxy serves.

        The stream stays open: the other process takes its end for the end of the proxy.
        """
        os.write(self._reports, SERVING_LINE)


def _private_copy(descriptor: int) -> int:
    return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST_FREE_DESCRIPTOR)
