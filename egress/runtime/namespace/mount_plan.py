"""Plans a sandbox's file system: the parts of the host at their paths, as ordered mount steps.

Theory of operation. The root is a tmpfs that holds only named entries. A folder of the host is one mount. A
mount below it may need a mount point that is missing. In a folder of the sandbox the mount point is created.
A folder of the host must not be changed, so it is covered by a tmpfs, in which all its entries are mounted
again, plus the new mount point.

Links are followed as the sandbox will follow them, so every mount lands at its visible path.

The module reads the host's folders, and writes only to the sandbox's own.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from egress.runtime import tmpfs as bounded
from egress.runtime.errors import MountError
from egress.runtime.namespace.inside.system_calls import NO_DEVICES, NO_PROGRAMS, NO_SUID, READ_ONLY

_MAX_LINKS: Final = 40
_MAX_STEPS: Final = 20_000

Kind = Literal["folder", "file", "link"]
Step = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class MountSource:
    """A part of the host to mount."""

    path: str
    attributes: int
    alone: bool = False
    """Whether to leave out the mounts below it."""


@dataclass(frozen=True, slots=True)
class FreshFolder:
    """A folder that is empty at each start of the sandbox."""

    path: str
    disk: str
    """The disk of the sandbox that holds the folder."""
    mode: int


@dataclass(frozen=True, slots=True)
class _Part:
    """The entry at a path of the sandbox."""

    kind: Kind
    source: Path | None = None
    """Its path on the host; None for an entry of a tmpfs."""
    target: str = ""
    is_own: bool = False
    is_writable: bool = False


@dataclass(slots=True)
class MountPlan:
    """The plan so far."""

    sources: list[MountSource] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    fresh: list[FreshFolder] = field(default_factory=list)
    _parts: dict[str, _Part] = field(default_factory=lambda: {"/": _Part("folder")})
    _still: list[str] = field(default_factory=list)

    def folder(self, path: str) -> None:
        """Ensure a folder, whatever it holds."""
        self._ready(path, "folder")

    def memory(self, path: str, mib: int, *, is_open: bool = True) -> None:
        """A tmpfs: world-writable, or closed except for later steps."""
        path = self._ready(path, "folder")
        options = bounded.options(mib, mode=0o1777) if is_open else "mode=0755,size=64k"
        self.steps.append(("memory", path, options))
        if not is_open:
            self._still.append(path)
        self._parts[path] = _Part("folder")

    def renew(self, path: str, *, disk: str, mode: int) -> None:
        """A folder that is replaced at each start. Until then a closed tmpfs covers its place."""
        path = self._ready(path, "folder")
        # Closed now, so that a failure at the start leaves it unwritable instead of unlimited.
        self.memory(path, 1, is_open=False)
        self.fresh = [*(each for each in self.fresh if each.path != path), FreshFolder(path, disk, mode)]

    def link(self, path: str, target: str) -> None:
        """A link, at an unused path."""
        above, _, name = path.rpartition("/")
        above = self._ready(above or "/", "folder")
        self._open(above)
        self._add_link(_join(above, name), target)

    def mount_read_only(self, path: str, source: Path) -> None:
        """A part of the host, read-only, with the mounts below it. A link becomes the same link."""
        found = _look(source)
        if found is None:
            return
        if found.kind == "link":
            self.link(path, found.target)
        else:
            self._mount(path, source, found.kind, READ_ONLY | NO_SUID | NO_DEVICES)

    def mount_named(self, path: str, source: Path, *, writable: bool) -> None:
        """A file or folder that the user named, without the mounts below it."""
        found = _look(source)
        if found is None:
            raise MountError(f"{source} does not exist", "mount an existing folder or file")
        attributes = NO_SUID | NO_DEVICES | (0 if writable else READ_ONLY)
        self._mount(path, source, found.kind, attributes, alone=True, is_writable=writable)

    def mount_own(self, path: str, source: Path) -> None:
        """A folder of the sandbox's own, writable."""
        self._mount(path, source, "folder", NO_SUID | NO_DEVICES, alone=True, is_own=True, is_writable=True)

    def device(self, path: str, source: Path) -> None:
        """A device node of the host."""
        # Read-only applies to the node's owner and mode; the device itself stays writable.
        self._mount(path, source, "file", READ_ONLY | NO_SUID | NO_PROGRAMS, alone=True)

    def ordered_steps(self) -> list[Step]:
        """The steps; covering folders are closed last, after their entries exist."""
        return [*self.steps, *(("still", path) for path in self._still)]

    def disks(self, options: Mapping[str, str]) -> list[dict[str, object]]:
        """The file systems to create at each start: mount options, and the folders of each."""
        return [
            {
                "options": how,
                "places": [
                    [each.path, each.mode, self._mounted_in(each.path)]
                    for each in self.fresh
                    if each.disk == name
                ],
            }
            for name, how in options.items()
        ]

    def _mounted_in(self, path: str) -> list[str]:
        """The topmost mounts below a folder."""
        points = [str(step[1]) for step in self.steps if step[0] in ("tree", "memory")]
        inside = sorted({each for each in points if each.startswith(path.rstrip("/") + "/")})
        return [each for each in inside if not any(each.startswith(above + "/") for above in inside)]

    # Mounting

    def _mount(
        self,
        path: str,
        source: Path,
        kind: Kind,
        attributes: int,
        *,
        alone: bool = False,
        is_own: bool = False,
        is_writable: bool = False,
    ) -> None:
        # The path is resolved first: a link in the sandbox decides where the mount lands.
        path = self._ready(path, kind)
        if len(self.steps) > _MAX_STEPS:
            raise MountError(
                f"{path} has too many neighbours for another mount", "mount it elsewhere in the sandbox"
            )
        self.steps.append(("tree", path, len(self.sources)))
        self.sources.append(MountSource(str(source), attributes, alone))
        self._parts[path] = _Part(kind, source, is_own=is_own, is_writable=is_writable)
        inside = path.rstrip("/") + "/"
        for below in [each for each in self._parts if each.startswith(inside)]:
            del self._parts[below]
        # Paths under the new mount drop out of `_still` and `fresh`: their steps would now hit this mount.
        self._still = [each for each in self._still if not f"{each}/".startswith(inside)]
        self.fresh = [each for each in self.fresh if not f"{each.path}/".startswith(inside)]

    def _ready(self, path: str, kind: Kind) -> str:
        """Resolve a path inside the sandbox, and ensure a mount point of this kind there."""
        names = [name for name in path.split("/") if name]
        at, links = "/", 0
        while names:
            here = _join(at, names.pop(0))
            part = self._look(here)
            if part is None:
                self._open(at)
                self._make(here, kind if not names else "folder")
            elif part.kind == "link":
                links += 1
                # The kernel's own limit: a longer chain fails inside the sandbox as well.
                if links > _MAX_LINKS:
                    raise MountError(f"{path} is a loop of links in the sandbox", "choose another path")
                start = "/" if part.target.startswith("/") else at
                whole = os.path.normpath(_join(start, part.target.lstrip("/")))
                names = [name for name in whole.split("/") if name] + names
                at = "/"
                continue
            elif (part.kind == "folder") != (kind == "folder" or bool(names)):
                raise MountError(f"{path} is of the wrong kind for a mount point", "choose another path")
            at = here
        return at

    def _look(self, path: str) -> _Part | None:
        part = self._parts.get(path)
        if part is not None:
            return part
        above, _, name = path.rpartition("/")
        holder = self._look(above) if above else self._parts["/"]
        if holder is None or holder.source is None or holder.kind != "folder":
            return None
        found = _look(holder.source / name)
        if found is None:
            return None
        return _Part(found.kind, holder.source / name, found.target, holder.is_own, holder.is_writable)

    def _make(self, path: str, kind: Kind) -> None:
        holder = self._look(path.rpartition("/")[0] or "/")
        if holder is not None and holder.source is not None:
            place = holder.source / path.rpartition("/")[2]
            if kind == "folder":
                place.mkdir(mode=0o755)
            else:
                place.touch(mode=0o444)
            return
        self.steps.append((kind, path))
        self._parts[path] = _Part(kind)

    def _open(self, path: str) -> None:
        """Make sure that entries can be created in a folder."""
        part = self._look(path)
        if part is None or part.source is None or part.is_own:
            return
        # A writable mount belongs to the user: neither covering nor writing it is acceptable.
        if part.is_writable:
            raise MountError(
                f"no mount point exists below the writable mount {path}",
                "create the folder or file there first",
            )
        # Cover the host's folder, and mount every entry again: only the copy gets the new mount point.
        self.steps.append(("memory", path, "mode=0755,size=1m"))
        self._still.append(path)
        source = part.source
        self._parts[path] = _Part("folder")
        for name in _names(source):
            found = _look(source / name)
            if found is None:
                continue
            here = _join(path, name)
            if found.kind == "link":
                self._add_link(here, found.target)
            else:
                self._make(here, found.kind)
                self._mount(here, source / name, found.kind, READ_ONLY | NO_SUID | NO_DEVICES)

    def _add_link(self, path: str, target: str) -> None:
        self.steps.append(("link", path, target))
        self._parts[path] = _Part("link", None, target)


def _join(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}"


def _names(folder: Path) -> list[str]:
    try:
        return sorted(each.name for each in folder.iterdir())
    except OSError:
        # The sandbox runs with the caller's rights at most, so it could not read the folder either.
        return []


def _look(path: Path) -> _Part | None:
    try:
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            return _Part("link", path, str(path.readlink()))
    except OSError:
        return None
    if stat.S_ISDIR(mode):
        return _Part("folder", path)
    return _Part("file", path) if stat.S_ISREG(mode) or stat.S_ISCHR(mode) else None
