"""Resolves paths of the host folder by folder, and judges the links on the way.

Links may be made by other people: the author of a repository, or a sandbox that can write a folder. So a link
that leads out of its own folder is followed only if root made it, and no sandbox could have.

The judged path is the used one. Each folder on the way is held open, and the next name is looked up in it;
replacing a folder or a link meanwhile changes nothing.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_MAX_LINKS: Final = 40
# O_PATH only refers to a file without opening it: pipes and devices are not triggered.
_PATH_FLAGS: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class FollowedLink:
    """A link that was followed."""

    place: Path
    target: Path
    owner: int


@dataclass(slots=True)
class ResolvedPath:
    """A resolved path, with open descriptors of its folders."""

    links: list[FollowedLink] = field(default_factory=list)
    _names: list[str] = field(default_factory=list)
    _held: list[int] = field(default_factory=list)
    """The root, and each existing folder of the path."""

    @property
    def end(self) -> Path:
        """The path without links. A missing part stays as written."""
        return Path("/", *self._names)

    @property
    def is_loop(self) -> bool:
        """Return whether the path was given up for too many links."""
        return len(self.links) > _MAX_LINKS

    @property
    def places(self) -> tuple[Path, ...]:
        """The place of each link, and the end unless it is a loop: writing any of them redirects the path."""
        links = tuple(link.place for link in self.links)
        return links if self.is_loop else (*links, self.end)

    def untrusted_link(self, written: Sequence[Path] = ()) -> FollowedLink | None:
        """Return a link that leads out of its folder, and that an untrusted user can have made.

        `written` are folders that a sandbox can write.
        """
        return next((link for link in self.links if _is_untrusted(link, written)), None)

    def open_file(self, flags: int) -> int:
        """Open the file at the end. Raises `OSError`."""
        self._refuse_missing(len(self._names) - 1)
        if not self._names:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        name = self._names[-1]
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._held[len(self._names) - 1])

    def open_folder(self, *, make: bool = False) -> int:
        """Open the folder at the end; `make` creates missing folders. Raises `OSError`."""
        if not make:
            self._refuse_missing(len(self._names))
        at = os.open(".", _FOLDER_FLAGS, dir_fd=self._held[-1])
        for name in self._names[len(self._held) - 1 :]:
            try:
                with suppress(FileExistsError):
                    os.mkdir(name, dir_fd=at)
                below = os.open(name, _FOLDER_FLAGS, dir_fd=at)
            finally:
                os.close(at)
            at = below
        return at

    def _refuse_missing(self, depth: int) -> None:
        """Raise the reason why the folder at this depth is missing."""
        if len(self._held) <= depth:
            # The open fails with the kernel's own reason, which names the missing part best.
            os.close(os.open(self._names[len(self._held) - 1], _PATH_FLAGS, dir_fd=self._held[-1]))
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))


@contextmanager
def resolve_path(path: Path) -> Iterator[ResolvedPath]:
    """Resolve a path, and hold its folders. Raises `OSError` for a loop of links."""
    with _walk(path) as way:
        if way.is_loop:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        yield way


def places_on_path(path: Path) -> tuple[Path, ...]:
    """The places of a path, also of a loop of links; at least one. Raises `OSError`."""
    with _walk(path) as way:
        return way.places


@contextmanager
def _walk(path: Path) -> Iterator[ResolvedPath]:
    way = ResolvedPath()
    try:
        way._held.append(os.open("/", _FOLDER_FLAGS | os.O_PATH))  # noqa: SLF001 - the two are one
        _advance(way, way._names, way._held, list(path.absolute().parts[1:]))  # noqa: SLF001 - likewise
        yield way
    finally:
        for each in way._held:  # noqa: SLF001 - likewise
            os.close(each)


def _advance(way: ResolvedPath, at: list[str], held: list[int], names: list[str]) -> None:
    # `held` stays one longer than `at` as long as every folder exists; a missing one ends the lookups.
    while names:
        name = names.pop(0)
        if name == "..":
            del at[-1:]
            _close_deeper(held, len(at) + 1)
            continue
        below = _open_entry(name, held[-1]) if len(held) == len(at) + 1 else None
        if below is None:
            at.append(name)
            continue
        held.append(below)
        found = os.fstat(below)
        if not stat.S_ISLNK(found.st_mode):
            at.append(name)
            continue
        # Read from the held descriptor: a replaced link of the same name is not followed.
        target = Path(os.readlink("", dir_fd=below))
        way.links.append(FollowedLink(Path("/", *at, name), target, found.st_uid))
        if way.is_loop:
            return
        names = [*target.parts[target.is_absolute() :], *names]
        if target.is_absolute():
            at.clear()
        _close_deeper(held, len(at) + 1)


def _close_deeper(held: list[int], count: int) -> None:
    while len(held) > count:
        os.close(held.pop())


def _open_entry(name: str, folder: int) -> int | None:
    """Hold an entry of a folder, even a link; None if it cannot be opened."""
    # As a folder first: that triggers an automount.
    for flags in (_PATH_FLAGS | os.O_DIRECTORY, _PATH_FLAGS):
        with suppress(OSError):
            return os.open(name, flags, dir_fd=folder)
    return None


def _is_untrusted(link: FollowedLink, written: Sequence[Path]) -> bool:
    leads_out = link.target.is_absolute() or ".." in link.target.parts
    return leads_out and (link.owner != 0 or any(link.place.is_relative_to(place) for place in written))
