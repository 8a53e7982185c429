"""What a sandbox is made of, put together out of what was asked for: its file system, and its variables."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from egress.runtime import disk
from egress.runtime.namespace import host
from egress.runtime.namespace.layout import Layout
from egress.runtime.protocol import Outfit
from egress.runtime.spec import Mount, Spec

DOOR: Final = "198.18.0.2"
"""The door's address, in every sandbox: each has a loopback of its own.

Not 127.0.0.1, which clients never ask a proxy for, and where the sandbox's own servers are. Of a range that
is nobody's (RFC 2544), so that no client takes it for a place of its own either.
"""
WITHOUT_PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
OURS: Final = ("/.egress", "/home/sandbox")
"""Where nothing of others is mounted."""
_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS: Final = (
    ("ptmx", "pts/ptmx"),
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
)
_OWN: Final = frozenset(
    {"proc", "sys", "dev", "tmp", "run", "root", "home", "lost+found", ".egress", ".dockerenv"}
)
"""What the root folder of an image has at its top, and a sandbox has of its own."""
_TEMPORARY: Final = "/tmp"  # noqa: S108 - that of the sandbox
_TEMPORARY_TOO: Final = "/var/tmp"  # noqa: S108
_DISK, _TEMPORARY_DISK = "disk", "temporary"


@dataclass(frozen=True, slots=True)
class Folders:
    """The sandbox's own folders on the host."""

    workspace: Path
    home: Path
    temporary: Path
    temporary_too: Path
    """For /var/tmp."""

    @classmethod
    def below(cls, folder: Path) -> Folders:
        return cls(*(folder / name for name in ("workspace", "home", "tmp", "var-tmp")))

    def make(self, owner: int) -> None:
        """Make them, for an owner; -1 is the caller."""
        for each, mode in zip(self.all(), (0o755, 0o700, 0o1777, 0o1777), strict=True):
            each.mkdir()
            each.chmod(mode)
            os.chown(each, owner, owner)

    def all(self) -> tuple[Path, ...]:
        return (self.workspace, self.home, self.temporary, self.temporary_too)


def file_system(
    spec: Spec,
    image: Path | None,
    folders: Folders,
    files: Mapping[str, Path],
    mounts: tuple[Mount, ...],
) -> Layout:
    """The plan. `files` are read-only, by path in the sandbox; `mounts` were judged."""
    layout = Layout()
    if image is None:
        _add_host(layout)
    else:
        _add_image(layout, image)
    _add_devices(layout)
    _add_own(layout, spec, folders)
    for target, add in sorted(
        _wanted(spec, folders, files, mounts, layout), key=lambda each: _depth(each[0])
    ):
        add(target)
    return layout


def _wanted(
    spec: Spec, folders: Folders, files: Mapping[str, Path], mounts: tuple[Mount, ...], layout: Layout
) -> Iterator[tuple[str, Callable[[str], None]]]:
    """What lies at paths that were asked for. Those below others have to come later, not to be covered."""
    if has_own_workspace(spec):
        if spec.limits.disk_mib is None:
            yield spec.workdir, partial(layout.own, source=folders.workspace)
        else:
            yield spec.workdir, partial(layout.renew, disk=_DISK, mode=0o755)
    for target, source in files.items():
        yield target, partial(layout.show, source=source)
    for mount in mounts:
        yield mount.target, partial(layout.lend, source=mount.source, writable=mount.writable)


def has_own_workspace(spec: Spec) -> bool:
    """Whether its working folder is its own, and nothing that was mounted, or is there anyway."""
    workdir = Path(os.path.normpath(spec.workdir))
    return workdir not in (Path(_TEMPORARY), Path(host.HOME)) and not any(
        workdir.is_relative_to(os.path.normpath(mount.target)) for mount in spec.mounts
    )


def own_files(spec: Spec, image: Path | None, hostname: str) -> dict[str, bytes]:
    """The files that every sandbox has, by path in it. A system in a folder has users of its own."""
    files = {
        "/etc/resolv.conf": host.resolver(DOOR),
        "/etc/hosts": host.hosts(hostname),
        "/etc/hostname": f"{hostname}\n".encode(),
    }
    if image is None:
        files |= {
            "/etc/passwd": host.passwd(spec.user, spec.group),
            "/etc/group": host.groups(spec.group),
            "/etc/nsswitch.conf": host.SOURCES,
        }
    return files


def hostname(name: str) -> str:
    """What the sandbox is called in its own network."""
    return name.replace("_", "-").replace(".", "-")[:63]


def variables(spec: Spec, outfit: Outfit) -> dict[str, str]:
    """The environment of every process. The way to the proxy is not the user's to change."""
    base = {"PATH": WITHOUT_PATH, "HOME": host.HOME, "USER": "sandbox", "LOGNAME": "sandbox"}
    return {**base, **spec.env, **outfit.variables}


def _depth(path: str) -> int:
    return len([part for part in path.split("/") if part])


def _add_host(layout: Layout) -> None:
    for path in host.PROGRAMS:
        layout.show(path, Path(path))
    layout.folder("/etc")
    for name in host.SETTINGS:
        source = Path("/etc", name)
        if source.exists():
            # Where it leads to, for the way there may not be shown.
            layout.show(f"/etc/{name}", source.resolve() if _leads_away(source) else source)
    for path in host.COVERED:
        if Path(path).is_dir():
            layout.memory(path, 1, is_open=False)


def _leads_away(source: Path) -> bool:
    return source.is_symlink() and not source.resolve().is_relative_to("/usr")


def _add_image(layout: Layout, image: Path) -> None:
    for entry in sorted(image.iterdir()):
        if entry.name not in _OWN:
            layout.show(f"/{entry.name}", entry)


def _add_devices(layout: Layout) -> None:
    for path in ("/proc", "/sys", "/dev", "/run", "/root", "/var", "/mnt"):
        layout.folder(path)
    layout.memory("/dev", 1, is_open=False)
    for name in _DEVICES:
        layout.device(f"/dev/{name}", Path("/dev", name))
    for name, target in _LINKS:
        layout.link(f"/dev/{name}", target)
    layout.folder("/dev/pts")
    layout.folder("/dev/shm")  # noqa: S108 - that of the sandbox


def _add_own(layout: Layout, spec: Spec, folders: Folders) -> None:
    # Of an image both can be there already.
    layout.memory("/run", 1, is_open=False)
    if spec.limits.disk_mib is not None:
        layout.renew(_TEMPORARY, disk=_TEMPORARY_DISK, mode=0o1777)
        layout.renew(_TEMPORARY_TOO, disk=_DISK, mode=0o1777)
        if spec.read_only:
            layout.folder(host.HOME)
        else:
            layout.renew(host.HOME, disk=_DISK, mode=0o700)
    elif spec.read_only:
        layout.memory(_TEMPORARY, spec.limits.temporary_mib)
        layout.folder(host.HOME)
        layout.memory(_TEMPORARY_TOO, spec.limits.temporary_mib)
    else:
        layout.own(_TEMPORARY, folders.temporary)
        layout.own(host.HOME, folders.home)
        layout.own(_TEMPORARY_TOO, folders.temporary_too)


def disks(spec: Spec) -> dict[str, str]:
    """The file systems of memory that are made at each start, by name: how they are mounted."""
    if spec.limits.disk_mib is None:
        return {}
    return {
        _DISK: disk.options(spec.limits.disk_mib),
        _TEMPORARY_DISK: disk.options(spec.limits.temporary_mib),
    }
