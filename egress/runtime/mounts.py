"""Which files and folders of the host a sandbox may see: those that are named, and never one that leads out.

A socket of an engine is the machine itself, and the sockets and files of the proxy are every secret behind
it. So what is refused is not only these, but every folder they lie in, and sockets of any kind. Paths are
followed to where they end before they are judged, and it is the end that is mounted.

Links that others can have made are not followed out of their folders; see `links`.

A sandbox that begins again is looked at again: a folder in one that it can write may be a link by now. What
changes between that look and the mount itself is not seen.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from egress.runtime.errors import MountError
from egress.runtime.safe_path import ResolvedPath, resolve_path
from egress.runtime.spec import Mount

ENGINE_SOCKETS: Final = tuple(
    Path(place)
    for place in (
        "/run/docker.sock",
        "/var/run/docker.sock",
        "/run/docker",
        "/run/containerd",
        "/run/podman",
        "/run/crio",
        "/run/user",
        "/var/lib/docker",
        "/var/lib/containerd",
        "/var/lib/containers",
    )
)
"""Sockets and stores of engines, where they usually are, and all sockets of those who are logged in."""
_SYSTEM_FOLDERS: Final = tuple(Path(place) for place in ("/proc", "/sys", "/dev", "/boot"))
_RESERVED_TARGETS: Final = ("/proc", "/sys", "/dev", "/etc/resolv.conf", "/etc/hosts", "/etc/hostname")
"""Where nothing is mounted in a sandbox: it would be its wall, or its names."""


def check_mounts(
    mounts: Iterable[Mount], guarded: Iterable[Path], taken: Iterable[str] = ()
) -> tuple[Mount, ...]:
    """The same mounts, by where their sources end. Raises `MountError` for one that no sandbox gets.

    `guarded` are places of the host that must not be seen, whole or in part, besides those of engines.
    `taken` are paths in the sandbox where something of ours is.
    """
    wanted = tuple(mounts)
    private = [_places(place) for place in guarded]
    closed = [*map(_end, ENGINE_SOCKETS), *(way[-1] for way in private)]
    # Whoever writes a link on the way there decides what is found.
    turned = [*closed, *(place for way in private for place in way)]
    written = [_end(mount.source) for mount in wanted if mount.writable]
    return tuple(
        _check_mount(mount, turned if mount.writable else closed, written, (*_RESERVED_TARGETS, *taken))
        for mount in wanted
    )


def refuse_moved(mounts: Iterable[Mount]) -> None:
    """Raise `MountError` where one that was checked, and mounted, lies behind a link by now."""
    for mount in mounts:
        if _end(mount.source) != mount.source:
            raise MountError(
                f"{mount.source} leads elsewhere than when it was mounted",
                "see what the sandbox did there, remove it, and make it anew",
            )


def _check_mount(mount: Mount, closed: list[Path], written: list[Path], taken: tuple[str, ...]) -> Mount:
    with _resolved(mount.source) as way:
        source, link = way.end, way.untrusted_link(written)
    try:
        kind = stat.S_IFMT(source.stat().st_mode)
    except OSError:
        raise MountError(
            f"{mount.source} is not there to be mounted", "name a folder or file that exists"
        ) from None
    if kind not in (stat.S_IFDIR, stat.S_IFREG):
        raise MountError(f"{mount.source} is neither folder nor file", "sockets and devices enter no sandbox")
    for place in closed:
        if _overlap(source, place):
            raise MountError(
                f"{mount.source} holds, or lies in, {place}, which is closed to sandboxes",
                "name the folder that is meant, and nothing above it",
            )
    if source == Path("/") or any(source.is_relative_to(place) for place in _SYSTEM_FOLDERS):
        raise MountError(f"{mount.source} belongs to the system", "name a folder with files of yours")
    if link is not None:
        raise MountError(
            f"{mount.source} is reached by the link {link.place}, which leads out of its folder",
            f"name {source} itself, if that is meant",
        )
    _check_target(mount.target, taken)
    return replace(mount, source=source)


def _check_target(target: str, taken: tuple[str, ...]) -> None:
    # Two slashes at the beginning are a root of their own to `normpath`, and none to an engine.
    path = Path(os.path.normpath(f"/{target.lstrip('/')}"))
    if path == Path("/"):
        raise MountError("nothing can be mounted over the whole sandbox", "name a folder in it")
    for place in taken:
        if path.is_relative_to(place) or Path(place).is_relative_to(path):
            raise MountError(
                f"{target} would cover {place}, which the sandbox needs", "take another path in it"
            )


def _overlap(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


def _end(path: Path) -> Path:
    """Where a path leads to. What is not there leads where it says."""
    return _places(path)[-1]


def _places(path: Path) -> tuple[Path, ...]:
    with _resolved(path) as way:
        return way.places


@contextmanager
def _resolved(path: Path) -> Iterator[ResolvedPath]:
    try:
        with resolve_path(path) as way:
            yield way
    except OSError:
        raise MountError(f"{path} cannot be followed to its end", "name the folder itself") from None
