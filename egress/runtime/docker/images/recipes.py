"""The recipes of the images, and the build context of each.

The recipes lie in `container/` of a checkout, and inside the package of an installation. In both cases the
engine gets the same files under the same names, so one recipe builds in both, and by hand. A context is a
normalised tar archive: equal files give an equal digest, whatever their owners and times.
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
_CHART_FOLDER: Final = "chart"
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
    """A Dockerfile, and the files that it needs."""

    file: str
    """The path of the Dockerfile in the context."""
    files: Mapping[str, Path]
    """The files, by path in the context."""

    def digest(self, *more: str) -> str:
        """A digest of all files, and of everything else that decides the image."""
        found = hashlib.sha256("\0".join((self.file, *more)).encode())
        # Paths in order and the length of each file: no two sets of files share a digest.
        for path, source in sorted(self.files.items()):
            data = source.read_bytes()
            found.update(f"\0{path}\0{len(data)}\0".encode() + data)
        return found.hexdigest()

    def write(self, out: BinaryIO, more: Mapping[str, Path] | None = None) -> None:
        """Write the context as a tar archive; `more` holds files and folders outside of the digest."""
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path, source in sorted({**self.files, **(more or {})}.items()):
                if source.is_dir():
                    # Links and programs stay what they are; owners and times are this machine's own business.
                    tar.add(source, path, filter=_without_owner)
                    continue
                data = source.read_bytes()
                # Only size and mode: owners and times would give each machine a digest of its own.
                entry = tarfile.TarInfo(path)
                entry.size, entry.mode = len(data), 0o644
                tar.addfile(entry, io.BytesIO(data))


def _without_owner(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    return entry


def folder() -> Path:
    """The folder of the recipes. Raises `UnsupportedError` if the installation has none."""
    for place in (_PACKAGE_FOLDER / _RECIPES_FOLDER, _PACKAGE_FOLDER.parent / _RECIPES_FOLDER):
        if (place / "proxy.Dockerfile").is_file():
            return place
    raise UnsupportedError("this installation has no image recipes", "reinstall the complete package")


def lock() -> Path:
    """The lock file of the proxy: every package with its hashes."""
    for place in (folder() / _LOCK_NAME, folder().parent / _LOCK_NAME):
        if place.is_file():
            return place
    raise UnsupportedError(f"this installation has no {_LOCK_NAME}", "reinstall the complete package")


def for_proxy() -> Recipe:
    """The proxy's recipe: it also needs the packages of the lock file, or an index."""
    files = {f"container/{name}": folder() / name for name in _own("proxy.Dockerfile", "proxy/*.py")}
    return Recipe("container/proxy.Dockerfile", {**files, _LOCK_NAME: lock(), **_package()})


def node_lock() -> Path:
    """The lock file of Node in the sandbox image, with its hashes."""
    return folder() / "sandbox/node.lock"


def for_sandbox() -> Recipe:
    """The recipe of the sandbox with the tools that agents expect: it also needs Node, or an index."""
    names = _own("Dockerfile", "sandbox/*")
    return Recipe("container/Dockerfile", {f"container/{name}": folder() / name for name in names})


def for_agents() -> Recipe:
    """The recipe of the agents on top of the sandbox: it also needs their packages, or an index."""
    names = _own("agents/*")
    return Recipe("container/agents/Dockerfile", {f"container/{name}": folder() / name for name in names})


def for_door() -> Recipe:
    """The door's recipe, for a base of the user; Egress itself makes a door without a recipe."""
    program = "egress/runtime/door/socket_opener.py"
    file = "container/door/Dockerfile"
    return Recipe(file, {file: folder() / "door/Dockerfile", program: _PACKAGE_FOLDER.parent / program})


def chart() -> Path:
    """The folder of the Helm chart. Raises `UnsupportedError` if the installation has none."""
    for place in (folder() / _CHART_FOLDER, folder().parent / "charts/egress"):
        if (place / "Chart.yaml").is_file():
            return place
    raise UnsupportedError("this installation has no chart", "reinstall the complete package")


def deployment_files() -> Mapping[str, Path]:
    """Files for running the images, which users edit, by path within their folder."""
    root = chart()
    inside = sorted(path for path in root.rglob("*") if path.is_file())
    return {name: folder() / name for name in sorted(_own(*_DEPLOYMENT_FILES))} | {
        f"{_CHART_FOLDER}/{path.relative_to(root).as_posix()}": path for path in inside
    }


def _own(*patterns: str) -> Iterator[str]:
    for pattern in patterns:
        for path in folder().glob(pattern):
            yield path.relative_to(folder()).as_posix()


def _package() -> dict[str, Path]:
    # Compiled files differ from machine to machine, and would change the digest.
    found = (path for path in _PACKAGE_FOLDER.rglob("*") if path.is_file() and path.suffix != ".pyc")
    inside = ((path, path.relative_to(_PACKAGE_FOLDER)) for path in found)
    return {f"egress/{name.as_posix()}": path for path, name in inside if name.parts[0] != _RECIPES_FOLDER}


PRODUCTS: Final = {"sandbox": for_sandbox, "agents": for_agents, "proxy": for_proxy}
"""The recipes of the images that users build, by name."""
