"""The plan of a sandbox's file system: which parts of the host are seen where, as steps to be taken in order.

Theory of operation. The root is made of memory, and nothing is in it but what is named. A folder of the host
is one mount. Where something has to be seen below it that has no place there yet, one more step is needed:
in a folder of the sandbox's own the place is made; a folder that belongs to others cannot be changed, so it
is covered by one made of memory, with everything that was in it seen there again, and the place.

Links are followed as the sandbox will follow them, so nothing lands where nobody looks for it.

It reads the host's folders, and changes nothing but the sandbox's own.
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
from egress.runtime.namespace.inside.kernel import NO_DEVICES, NO_PROGRAMS, NO_SUID, READ_ONLY

_MAX_LINKS: Final = 40
_MAX_STEPS: Final = 20_000

Kind = Literal["folder", "file", "link"]
Step = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class MountSource:
    """A part of the host that is mounted."""

    path: str
    attributes: int
    alone: bool = False
    """Without what is mounted below it."""


@dataclass(frozen=True, slots=True)
class FreshFolder:
    """A folder that is empty at each start of the sandbox."""

    path: str
    disk: str
    """Which of the sandbox's disks it is a part of."""
    mode: int


@dataclass(frozen=True, slots=True)
class _Part:
    """What is at a path of the sandbox."""

    kind: Kind
    source: Path | None = None
    """Where it is on the host; None for what is made of memory."""
    target: str = ""
    is_own: bool = False
    is_writable: bool = False


@dataclass(slots=True)
class MountPlan:
    """What was planned so far."""

    sources: list[MountSource] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    fresh: list[FreshFolder] = field(default_factory=list)
    _parts: dict[str, _Part] = field(default_factory=lambda: {"/": _Part("folder")})
    _still: list[str] = field(default_factory=list)

    def folder(self, path: str) -> None:
        """There is a folder, whatever is in it."""
        self._ready(path, "folder")

    def memory(self, path: str, mib: int, *, is_open: bool = True) -> None:
        """A folder of memory: everybody may write to it, or nothing is in it but what comes here."""
        path = self._ready(path, "folder")
        options = bounded.options(mib, mode=0o1777) if is_open else "mode=0755,size=64k"
        self.steps.append(("memory", path, options))
        if not is_open:
            self._still.append(path)
        self._parts[path] = _Part("folder")

    def renew(self, path: str, *, disk: str, mode: int) -> None:
        """A folder of the sandbox's own that is empty at each start. Until then its place is closed."""
        path = self._ready(path, "folder")
        self.memory(path, 1, is_open=False)
        self.fresh = [*(each for each in self.fresh if each.path != path), FreshFolder(path, disk, mode)]

    def link(self, path: str, target: str) -> None:
        """A link, where nothing is yet."""
        above, _, name = path.rpartition("/")
        above = self._ready(above or "/", "folder")
        self._open(above)
        self._add_link(_join(above, name), target)

    def mount_read_only(self, path: str, source: Path) -> None:
        """A part of the host, to be read; what is mounted below it as well. A link is shown as one."""
        found = _look(source)
        if found is None:
            return
        if found.kind == "link":
            self.link(path, found.target)
        else:
            self._mount(path, source, found.kind, READ_ONLY | NO_SUID | NO_DEVICES)

    def mount_named(self, path: str, source: Path, *, writable: bool) -> None:
        """A file or folder that was named, and nothing that is mounted below it."""
        found = _look(source)
        if found is None:
            raise MountError(f"{source} is not there to be mounted", "name a folder or file that exists")
        attributes = NO_SUID | NO_DEVICES | (0 if writable else READ_ONLY)
        self._mount(path, source, found.kind, attributes, alone=True, is_writable=writable)

    def mount_own(self, path: str, source: Path) -> None:
        """A folder of the sandbox's own, to be written."""
        self._mount(path, source, "folder", NO_SUID | NO_DEVICES, alone=True, is_own=True, is_writable=True)

    def device(self, path: str, source: Path) -> None:
        """One device."""
        # What is read-only is its file, with its owner and mode; the device is written all the same.
        self._mount(path, source, "file", READ_ONLY | NO_SUID | NO_PROGRAMS, alone=True)

    def ordered_steps(self) -> list[Step]:
        """All steps; what was covered is closed last."""
        return [*self.steps, *(("still", path) for path in self._still)]

    def disks(self, options: Mapping[str, str]) -> list[dict[str, object]]:
        """What is made at each start: file systems, by how they are mounted, and the folders of each."""
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
        """What is mounted below a folder, and below nothing else that is."""
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
        path = self._ready(path, kind)
        if len(self.steps) > _MAX_STEPS:
            raise MountError(
                f"there is too much beside {path} for one more mount", "mount it elsewhere in the sandbox"
            )
        self.steps.append(("tree", path, len(self.sources)))
        self.sources.append(MountSource(str(source), attributes, alone))
        self._parts[path] = _Part(kind, source, is_own=is_own, is_writable=is_writable)
        inside = path.rstrip("/") + "/"
        for below in [each for each in self._parts if each.startswith(inside)]:
            del self._parts[below]
        # What is mounted over is neither closed in the end nor renewed at a start: that would be this one.
        self._still = [each for each in self._still if not f"{each}/".startswith(inside)]
        self.fresh = [each for each in self.fresh if not f"{each.path}/".startswith(inside)]

    def _ready(self, path: str, kind: Kind) -> str:
        """Where a path leads to, with something there of a kind that can be mounted over."""
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
                if links > _MAX_LINKS:
                    raise MountError(f"{path} cannot be followed to its end in the sandbox", "take another")
                start = "/" if part.target.startswith("/") else at
                whole = os.path.normpath(_join(start, part.target.lstrip("/")))
                names = [name for name in whole.split("/") if name] + names
                at = "/"
                continue
            elif (part.kind == "folder") != (kind == "folder" or bool(names)):
                raise MountError(f"{path} is not of a kind to be mounted over", "take another path")
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
        """Let a folder be one in which something can be made."""
        part = self._look(path)
        if part is None or part.source is None or part.is_own:
            return
        if part.is_writable:
            raise MountError(
                f"nothing can be mounted below {path} where nothing is", "make a folder or file there first"
            )
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
        # What the caller cannot read nobody in the sandbox could.
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
