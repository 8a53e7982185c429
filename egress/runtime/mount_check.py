"""Decides which files and folders of the host a sandbox may see: named ones that lead nowhere dangerous.

An engine's socket controls the machine, and the proxy's sockets and files give access to every secret. So
these are refused, with every folder above them, and sockets of any kind. Paths are resolved before they are
judged, and the resolved path is mounted.

Links that other users can have made are not followed out of their folders; see `safe_path`.

A sandbox that starts again is checked again: a folder that it can write may have become a link. A change
between that check and the mount itself is not noticed.
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
"""The usual sockets and stores of engines, and all sockets of logged-in users."""
_SYSTEM_FOLDERS: Final = tuple(Path(place) for place in ("/proc", "/sys", "/dev", "/boot"))
_RESERVED_TARGETS: Final = ("/proc", "/sys", "/dev", "/etc/resolv.conf", "/etc/hosts", "/etc/hostname")
"""Targets in a sandbox that stay unmounted: they isolate it, or configure its names."""


def check_mounts(
    mounts: Iterable[Mount], guarded: Iterable[Path], taken: Iterable[str] = ()
) -> tuple[Mount, ...]:
    """The same mounts, with resolved sources. Raises `MountError` for a mount that no sandbox may have.

    `guarded` are further places of the host that must not be seen, whole or in part. `taken` are paths in the
    sandbox that Egress uses.
    """
    wanted = tuple(mounts)
    private = [_places(place) for place in guarded]
    closed = [*map(_end, ENGINE_SOCKETS), *(places[-1] for places in private)]
    # A sandbox that can write a link on the way to a guarded place can redirect that place.
    redirectable = [*closed, *(place for places in private for place in places)]
    written = [_end(mount.source) for mount in wanted if mount.writable]
    return tuple(
        _check_mount(mount, redirectable if mount.writable else closed, written, (*_RESERVED_TARGETS, *taken))
        for mount in wanted
    )


def refuse_moved(mounts: Iterable[Mount]) -> None:
    """Raise `MountError` if a source that was mounted is a link by now."""
    for mount in mounts:
        if _end(mount.source) != mount.source:
            raise MountError(
                f"{mount.source} became a link after it was mounted",
                "inspect what the sandbox did, remove it, and create it again",
            )


def _check_mount(mount: Mount, closed: list[Path], written: list[Path], taken: tuple[str, ...]) -> Mount:
    with _resolved(mount.source) as way:
        source, link = way.end, way.untrusted_link(written)
    try:
        # Order of the checks: existence first, then what the path may expose, then its place in the sandbox.
        # Every error names the user's own path.
        kind = stat.S_IFMT(source.stat().st_mode)
    except OSError:
        raise MountError(f"{mount.source} does not exist", "mount an existing folder or file") from None
    if kind not in (stat.S_IFDIR, stat.S_IFREG):
        raise MountError(
            f"{mount.source} is neither folder nor file", "sockets and devices cannot be mounted"
        )
    for place in closed:
        if _overlap(source, place):
            raise MountError(
                f"{mount.source} contains or lies in {place}, which sandboxes must not see",
                "mount a more specific folder",
            )
    if source == Path("/") or any(source.is_relative_to(place) for place in _SYSTEM_FOLDERS):
        raise MountError(f"{mount.source} is a system folder", "mount a folder with your own files")
    if link is not None:
        raise MountError(
            f"{mount.source} goes through the link {link.place}, which leads out of its folder",
            f"name {source} itself to mount it",
        )
    _check_target(mount.target, taken)
    return replace(mount, source=source)


def _check_target(target: str, taken: tuple[str, ...]) -> None:
    # POSIX gives two leading slashes a meaning of their own, which `normpath` keeps and engines ignore.
    path = Path(os.path.normpath(f"/{target.lstrip('/')}"))
    if path == Path("/"):
        raise MountError("a mount cannot cover the whole sandbox", "choose a folder in it")
    for place in taken:
        if path.is_relative_to(place) or Path(place).is_relative_to(path):
            raise MountError(
                f"{target} would cover {place}, which the sandbox needs", "choose another path in it"
            )


def _overlap(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


def _end(path: Path) -> Path:
    """The resolved path; missing parts are kept as written."""
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
        raise MountError(f"cannot resolve {path}", "name the folder itself") from None
