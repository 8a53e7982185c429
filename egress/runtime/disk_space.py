"""Room on this machine's disk: some is left for others, however much a sandbox has to give.

A file with holes in it takes nothing where it is, and all of its size in an archive. Others live on the same
disk, the log of the proxy among them, which serves nobody where it cannot write.
"""

from __future__ import annotations

import os
from typing import IO, Final

from egress.runtime.errors import SandboxStateError
from egress.runtime.spec import MIB

_MIN_FREE_BYTES: Final = 1024 * MIB
_MIN_FREE_DIVISOR: Final = 10
"""Of a disk that is small one tenth is left."""
_CHECK_INTERVAL_BYTES: Final = MIB
"""Bytes after which it is looked again."""


class SpaceCheckedFile:
    """Writes to a file as long as there is room beside it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._unseen = 0

    def write(self, data: bytes) -> int:
        """Raises `SandboxStateError` where it would become narrow, and `OSError`."""
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
            "what is copied takes more room than this machine has to spare",
            "make room, also for temporary files, or copy less at a time",
        )
