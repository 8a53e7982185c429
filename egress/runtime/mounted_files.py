"""The files of a sandbox on the host: what is mounted into it and cannot be written there.

They are renewed in place, because a mounted file stays the one it was: another one of the same name would
not be seen. What lies in the folder of the outfit is mounted as a folder, so that new names can come.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from egress.errors import reason_of
from egress.runtime.errors import EngineUnavailableError, SpecError
from egress.runtime.protocol import Provisions


@contextmanager
def folder_errors(folder: Path) -> Iterator[None]:
    """Tell that a folder is full, or not what it was. Raises `EngineUnavailableError`."""
    try:
        yield
    except OSError as error:
        raise EngineUnavailableError(
            f"the files of a sandbox cannot be written in {folder}: {reason_of(error)}",
            "make room there, or name another folder with --runtime-dir",
        ) from None


@dataclass(frozen=True, slots=True)
class MountedFiles:
    """Files on the host, for one sandbox."""

    folder: Path
    own: Mapping[str, bytes]
    """What every sandbox has, by path in it."""

    def write(self, outfit: Provisions) -> dict[str, Path]:
        """Write all of them; returns what to mount, by path in the sandbox. Raises `SpecError`."""
        self.renew(outfit)
        seen = {target: self._own_file(number) for number, target in enumerate(sorted(self.own))}
        if outfit.files:
            seen[outfit.folder] = self._provision_folder
        for target, source in outfit.overmounts.items():
            if source not in outfit.files:
                raise SpecError(f"the outfit mounts {source} and does not have it", "add it to the files")
            seen[target] = self._provision_folder / _path_in_folder(outfit, source)
        return seen

    def renew(self, outfit: Provisions) -> None:
        """Write them again, in place. What the last outfit had and this one has not stays."""
        with folder_errors(self.folder):
            self._provision_folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            for number, (_, data) in enumerate(sorted(self.own.items())):
                _write(self._own_file(number), data)
            for target, data in outfit.files.items():
                place = self._provision_folder / _path_in_folder(outfit, target)
                place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                _write(place, data)

    @property
    def _provision_folder(self) -> Path:
        return self.folder / "outfit"

    def _own_file(self, number: int) -> Path:
        return self.folder / str(number)


def _path_in_folder(outfit: Provisions, target: str) -> PurePosixPath:
    path = PurePosixPath(target)
    if ".." in path.parts or not path.is_relative_to(outfit.folder) or str(path) == outfit.folder:
        raise SpecError(f"the outfit has {target}, which is not in its folder", "put all of it in one folder")
    return path.relative_to(outfit.folder)


def _write(place: Path, data: bytes) -> None:
    file = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        # Whatever the user's mask says: the sandbox has another user.
        os.fchmod(file, 0o644)
        # In one go, and cut after it: whoever reads meanwhile finds more than there should be, never less.
        written = os.pwrite(file, data, 0)
        while written < len(data):
            written += os.pwrite(file, data[written:], written)
        os.truncate(file, len(data))
    finally:
        os.close(file)
