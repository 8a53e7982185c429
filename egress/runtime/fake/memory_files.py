"""The files of a sandbox in memory, without links or permissions, but with the limit of a disk."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import PurePosixPath
from posixpath import normpath
from typing import Final

_TEMP_FOLDER: Final = "/tmp"  # noqa: S108 - that of the sandbox


class MemoryFiles:
    """The files of a sandbox: contents by path, and folders."""

    def __init__(self) -> None:
        self._files: dict[str, bytes] = {}
        self._folders: set[str] = {"/", _TEMP_FOLDER}
        self._most: int | None = None

    def __contains__(self, path: object) -> bool:
        return path in self._files or path in self._folders

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._files))

    def read(self, path: str) -> bytes:
        """The content of a file. Raises `FileNotFoundError`."""
        if path not in self._files:
            raise FileNotFoundError(path)
        return self._files[path]

    def write(self, path: str, data: bytes) -> None:
        """Write a file, and create the folders above it. Raises `OSError` beyond the disk limit."""
        path = normpath(path)
        old = self._files.get(path, b"")
        if self._most is not None and _is_counted(path) and self._used() - len(old) + len(data) > self._most:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        self.make_folder(str(PurePosixPath(path).parent))
        self._files[path] = data

    def bound(self, size: int) -> None:
        """Limit further writes to this many bytes, without those below /tmp."""
        self._most = self._used() + size

    def _used(self) -> int:
        return sum(len(data) for path, data in self._files.items() if _is_counted(path))

    def make_folder(self, path: str) -> None:
        path = normpath(path)
        self._folders |= {path, *map(str, PurePosixPath(path).parents)}

    def is_folder(self, path: str) -> bool:
        return normpath(path) in self._folders

    def below(self, path: str) -> Iterator[str]:
        """Files and folders below a folder, at any depth."""
        start = f"{normpath(path).rstrip('/')}/"
        return iter(sorted(each for each in (*self._files, *self._folders) if each.startswith(start)))


def _is_counted(path: str) -> bool:
    return not path.startswith(f"{_TEMP_FOLDER}/")
