"""Where the recipes are, and the folder that the engine is given with one of them.

The recipes lie in `container/` of a checkout, and inside the package where it was installed. Either way the
engine gets the same files under the same names, so the one text builds in both, and also by hand. A context
is a tar archive in memory order: equal files make an equal digest, whoever owns them and whenever they were
written.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import egress
from egress.runtime.errors import UnsupportedError

_PACKAGE_FOLDER: Final = Path(egress.__file__).parent
_LOCK_NAME: Final = "requirements.lock"
_RECIPES_FOLDER: Final = "container"
_DEPLOYMENT_FILES: Final = (
    "compose.yaml",
    "kubernetes.yaml",
    "resolv.conf",
    "rules/*",
    "shipping/*",
    "workload/*",
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """One text that images are made by, and what has to lie around it."""

    file: str
    """The path of the text within the context."""
    files: Mapping[str, Path]
    """By the path within the context."""

    def digest(self, *more: str) -> str:
        """Of all the files, and of what else decides what comes out."""
        found = hashlib.sha256("\0".join((self.file, *more)).encode())
        for path, source in sorted(self.files.items()):
            data = source.read_bytes()
            found.update(f"\0{path}\0{len(data)}\0".encode() + data)
        return found.hexdigest()

    def write(self, out: BinaryIO, more: Mapping[str, Path] | None = None) -> None:
        """Write the context as a tar archive, with more files that the digest need not know."""
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path, source in sorted({**self.files, **(more or {})}.items()):
                data = source.read_bytes()
                entry = tarfile.TarInfo(path)
                entry.size, entry.mode = len(data), 0o644
                tar.addfile(entry, io.BytesIO(data))


def folder() -> Path:
    """Where the recipes are. Raises `UnsupportedError` where they were left out."""
    for place in (_PACKAGE_FOLDER / _RECIPES_FOLDER, _PACKAGE_FOLDER.parent / _RECIPES_FOLDER):
        if (place / "proxy.Dockerfile").is_file():
            return place
    raise UnsupportedError("this installation has no recipes for images", "install the package again, whole")


def lock() -> Path:
    """The file that names every package of the proxy, with its hashes."""
    for place in (folder() / _LOCK_NAME, folder().parent / _LOCK_NAME):
        if place.is_file():
            return place
    raise UnsupportedError(f"this installation has no {_LOCK_NAME}", "install the package again, whole")


def for_proxy() -> Recipe:
    """The proxy: needs the packages of the lock file besides, or an index to get them from."""
    files = {f"container/{name}": folder() / name for name in _own("proxy.Dockerfile", "proxy/*.py")}
    return Recipe("container/proxy.Dockerfile", {**files, _LOCK_NAME: lock(), **_package()})


def for_sandbox() -> Recipe:
    """The sandbox with the tools that agents take for granted."""
    return Recipe("container/Dockerfile", {"container/Dockerfile": folder() / "Dockerfile"})


def for_door() -> Recipe:
    """The door, for a base of one's own; Egress itself makes one without any recipe."""
    program = "egress/runtime/door/socket_opener.py"
    file = "container/door/Dockerfile"
    return Recipe(file, {file: folder() / "door/Dockerfile", program: _PACKAGE_FOLDER.parent / program})


def deployment_files() -> Mapping[str, Path]:
    """What runs images and is there to be edited, by the path within a folder of its own."""
    return {name: folder() / name for name in sorted(_own(*_DEPLOYMENT_FILES))}


def _own(*patterns: str) -> Iterator[str]:
    for pattern in patterns:
        for path in folder().glob(pattern):
            yield path.relative_to(folder()).as_posix()


def _package() -> dict[str, Path]:
    found = (path for path in _PACKAGE_FOLDER.rglob("*") if path.is_file() and path.suffix != ".pyc")
    inside = ((path, path.relative_to(_PACKAGE_FOLDER)) for path in found)
    return {f"egress/{name.as_posix()}": path for path, name in inside if name.parts[0] != _RECIPES_FOLDER}
