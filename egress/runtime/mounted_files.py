"""The files of a sandbox that lie on the host, mounted read-only into the sandbox.

Files are rewritten in place, because a mount keeps the inode: a new file of the same name would not be seen.
The folder of the provisions is mounted as a folder, so that new names can appear.
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
    """Report a full or unusable folder. Raises `EngineUnavailableError`."""
    try:
        yield
    except OSError as error:
        raise EngineUnavailableError(
            f"cannot write the files of a sandbox in {folder}: {reason_of(error)}",
            "free space there, or choose another folder with --runtime-dir",
        ) from None


@dataclass(frozen=True, slots=True)
class MountedFiles:
    """The files of one sandbox on the host."""

    folder: Path
    own: Mapping[str, bytes]
    """Files that every sandbox has, by path in the sandbox."""

    def write(self, provisions: Provisions) -> dict[str, Path]:
        """Write all files; returns the mounts, host path by path in the sandbox. Raises `SpecError`."""
        self.renew(provisions)
        seen = {target: self._own_file(number) for number, target in enumerate(sorted(self.own))}
        if provisions.files:
            seen[provisions.folder] = self._provision_folder
        # An overmount of a missing file would make the engine create a folder there.
        for target, source in provisions.overmounts.items():
            if source not in provisions.files:
                raise SpecError(f"the provisions mount {source} but lack that file", "add it to the files")
            seen[target] = self._provision_folder / _path_in_folder(provisions, source)
        return seen

    def renew(self, provisions: Provisions) -> None:
        """Rewrite the files in place. Files that only the last provisions had stay."""
        with folder_errors(self.folder):
            self._provision_folder.mkdir(mode=0o755, parents=True, exist_ok=True)
            for number, (_, data) in enumerate(sorted(self.own.items())):
                _write(self._own_file(number), data)
            for target, data in provisions.files.items():
                place = self._provision_folder / _path_in_folder(provisions, target)
                place.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                _write(place, data)

    @property
    def _provision_folder(self) -> Path:
        return self.folder / "provisions"

    def _own_file(self, number: int) -> Path:
        return self.folder / str(number)


def _path_in_folder(provisions: Provisions, target: str) -> PurePosixPath:
    path = PurePosixPath(target)
    if ".." in path.parts or not path.is_relative_to(provisions.folder) or str(path) == provisions.folder:
        raise SpecError(
            f"the provisions hold {target}, which is outside of their folder", "put all files in one folder"
        )
    return path.relative_to(provisions.folder)


def _write(place: Path, data: bytes) -> None:
    file = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
    try:
        # Despite the umask: the sandbox runs as another user.
        os.fchmod(file, 0o644)
        # A single write, then a truncate: a concurrent reader may see too many bytes, never too few.
        written = os.pwrite(file, data, 0)
        while written < len(data):
            written += os.pwrite(file, data[written:], written)
        os.truncate(file, len(data))
    finally:
        os.close(file)
