"""Free disk space: copying for a sandbox must not fill the disk of this machine.

A sparse file takes no space in a sandbox, and its full size in an archive. Other programs share the disk,
among them the proxy's log, and a proxy that cannot write its log serves no request.
"""

from __future__ import annotations

import os
from typing import IO, Final

from egress.runtime.errors import SandboxStateError
from egress.runtime.spec import MIB

_MIN_FREE_BYTES: Final = 1024 * MIB
_MIN_FREE_DIVISOR: Final = 10
"""On a small disk one tenth stays free."""
_CHECK_INTERVAL_BYTES: Final = MIB
"""Bytes between two checks."""


class SpaceCheckedFile:
    """Writes to a file as long as enough disk space stays free."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._unseen = 0

    def write(self, data: bytes) -> int:
        """Write data. Raises `SandboxStateError` if too little space would stay free, and `OSError`."""
        self._unseen -= len(data)
        if self._unseen < 0:
            _check_free_space(self._file.fileno())
            self._unseen = _CHECK_INTERVAL_BYTES
        return self._file.write(data)


def _check_free_space(file: int) -> None:
    found = os.fstatvfs(file)
    if found.f_bavail * found.f_frsize < min(
        _MIN_FREE_BYTES, found.f_blocks * found.f_frsize // _MIN_FREE_DIVISOR
    ):
        raise SandboxStateError(
            "the copy needs more disk space than this machine can spare",
            "free disk space, also for temporary files, or copy less at a time",
        )
