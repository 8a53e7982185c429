"""Plans a sandbox's contents from its spec: its mounts, its own files, and its variables."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from egress.runtime import passwd_files, tmpfs
from egress.runtime.namespace import host_image
from egress.runtime.namespace.mount_plan import MountPlan
from egress.runtime.protocol import Provisions
from egress.runtime.spec import Mount, Spec

DOOR_ADDRESS: Final = "198.18.0.2"
"""The door's address in every sandbox: each has its own loopback.

Not 127.0.0.1: clients never use a proxy for it, and the sandbox's own servers listen there. The range is
reserved (RFC 2544), so no client mistakes the address for a local network.
"""
DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
RESERVED_PATHS: Final = ("/.egress", "/home/sandbox")
"""Paths at which users may mount nothing."""
_DEVICE_NAMES: Final = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS: Final = (
    ("ptmx", "pts/ptmx"),
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
)
_OWN_ROOT_NAMES: Final = frozenset(
    {"proc", "sys", "dev", "tmp", "run", "root", "home", "lost+found", ".egress", ".dockerenv"}
)
"""Top-level names of an image's root folder that the sandbox replaces by its own."""
_TEMP_FOLDER: Final = "/tmp"  # noqa: S108 - that of the sandbox
_VAR_TEMP_FOLDER: Final = "/var/tmp"  # noqa: S108
_DISK, _TEMPORARY_DISK = "disk", "temporary"


@dataclass(frozen=True, slots=True)
class OwnFolders:
    """The sandbox's own folders on the host."""

    workspace: Path
    home: Path
    temporary: Path
    temporary_too: Path
    """The folder of /var/tmp."""

    @classmethod
    def below(cls, folder: Path) -> OwnFolders:
        return cls(*(folder / name for name in ("workspace", "home", "tmp", "var-tmp")))

    def make(self, owner: int) -> None:
        """Create the folders for an owner; -1 is the caller."""
        for each, mode in zip(self.all(), (0o755, 0o700, 0o1777, 0o1777), strict=True):
            each.mkdir()
            each.chmod(mode)
            os.chown(each, owner, owner)

    def all(self) -> tuple[Path, ...]:
        return (self.workspace, self.home, self.temporary, self.temporary_too)


def plan_mounts(
    spec: Spec,
    image: Path | None,
    folders: OwnFolders,
    files: Mapping[str, Path],
    mounts: tuple[Mount, ...],
) -> MountPlan:
    """Plan all mounts. `files` are read-only, by path in the sandbox; `mounts` were checked."""
    layout = MountPlan()
    if image is None:
        _add_host(layout)
    else:
        _add_image(layout, image)
    _add_devices(layout)
    _add_own(layout, spec, folders)
    # Shallow paths first: a later mount above would cover an earlier one below.
    for target, add in sorted(
        _requested_mounts(spec, folders, files, mounts, layout), key=lambda each: _depth(each[0])
    ):
        add(target)
    return layout


def _requested_mounts(
    spec: Spec, folders: OwnFolders, files: Mapping[str, Path], mounts: tuple[Mount, ...], layout: MountPlan
) -> Iterator[tuple[str, Callable[[str], None]]]:
    """The mounts at paths that the user chose."""
    if has_own_workspace(spec):
        if spec.limits.disk_mib is None:
            yield spec.workdir, partial(layout.mount_own, source=folders.workspace)
        else:
            yield spec.workdir, partial(layout.renew, disk=_DISK, mode=0o755)
    for target, source in files.items():
        yield target, partial(layout.mount_read_only, source=source)
    for mount in mounts:
        yield mount.target, partial(layout.mount_named, source=mount.source, writable=mount.writable)


def has_own_workspace(spec: Spec) -> bool:
    """Return whether the workspace is a folder of its own, neither mounted by the user nor present anyway."""
    workdir = Path(os.path.normpath(spec.workdir))
    return workdir not in (Path(_TEMP_FOLDER), Path(passwd_files.HOME_FOLDER)) and not any(
        workdir.is_relative_to(os.path.normpath(mount.target)) for mount in spec.mounts
    )


def own_files(spec: Spec, image: Path | None, hostname: str) -> dict[str, bytes]:
    """The files that every sandbox has, by path in it. A root folder brings its own users."""
    files = {
        "/etc/resolv.conf": host_image.resolver(DOOR_ADDRESS),
        "/etc/hosts": host_image.hosts(hostname),
        "/etc/hostname": f"{hostname}\n".encode(),
    }
    if image is None:
        files |= {
            "/etc/passwd": passwd_files.passwd(spec.user, spec.group),
            "/etc/group": passwd_files.groups(spec.group),
            "/etc/nsswitch.conf": host_image.NSSWITCH_FILE,
        }
    return files


def hostname(name: str) -> str:
    """The sandbox's host name."""
    return name.replace("_", "-").replace(".", "-")[:63]


def variables(spec: Spec, provisions: Provisions) -> dict[str, str]:
    """The environment of every process. Users cannot override the variables of the proxy."""
    base = {"PATH": DEFAULT_PATH, "HOME": passwd_files.HOME_FOLDER, "USER": "sandbox", "LOGNAME": "sandbox"}
    return {**base, **spec.env, **provisions.variables}


def _depth(path: str) -> int:
    return len([part for part in path.split("/") if part])


def _add_host(layout: MountPlan) -> None:
    for path in host_image.PROGRAM_FOLDERS:
        layout.mount_read_only(path, Path(path))
    layout.folder("/etc")
    for name in host_image.SHOWN_SETTINGS:
        source = Path("/etc", name)
        if source.exists():
            # The target of a link that leaves /usr may not be visible in the sandbox, so the target is
            # mounted.
            layout.mount_read_only(f"/etc/{name}", source.resolve() if _leads_away(source) else source)
    for path in host_image.COVERED_FOLDERS:
        if Path(path).is_dir():
            layout.memory(path, 1, is_open=False)


def _leads_away(source: Path) -> bool:
    return source.is_symlink() and not source.resolve().is_relative_to("/usr")


def _add_image(layout: MountPlan, image: Path) -> None:
    for entry in sorted(image.iterdir()):
        if entry.name not in _OWN_ROOT_NAMES:
            layout.mount_read_only(f"/{entry.name}", entry)


def _add_devices(layout: MountPlan) -> None:
    for path in ("/proc", "/sys", "/dev", "/run", "/root", "/var", "/mnt"):
        layout.folder(path)
    layout.memory("/dev", 1, is_open=False)
    for name in _DEVICE_NAMES:
        layout.device(f"/dev/{name}", Path("/dev", name))
    for name, target in _DEVICE_LINKS:
        layout.link(f"/dev/{name}", target)
    layout.folder("/dev/pts")
    layout.folder("/dev/shm")  # noqa: S108 - that of the sandbox


def _add_own(layout: MountPlan, spec: Spec, folders: OwnFolders) -> None:
    # An image may have both paths already, so they are covered.
    layout.memory("/run", 1, is_open=False)
    if spec.limits.disk_mib is not None:
        layout.renew(_TEMP_FOLDER, disk=_TEMPORARY_DISK, mode=0o1777)
        layout.renew(_VAR_TEMP_FOLDER, disk=_DISK, mode=0o1777)
        if spec.read_only:
            layout.folder(passwd_files.HOME_FOLDER)
        else:
            layout.renew(passwd_files.HOME_FOLDER, disk=_DISK, mode=0o700)
    elif spec.read_only:
        layout.memory(_TEMP_FOLDER, spec.limits.temporary_mib)
        layout.folder(passwd_files.HOME_FOLDER)
        layout.memory(_VAR_TEMP_FOLDER, spec.limits.temporary_mib)
    else:
        layout.mount_own(_TEMP_FOLDER, folders.temporary)
        layout.mount_own(passwd_files.HOME_FOLDER, folders.home)
        layout.mount_own(_VAR_TEMP_FOLDER, folders.temporary_too)


def tmpfs_options(spec: Spec) -> dict[str, str]:
    """The mount options of the file systems of each start, by disk."""
    if spec.limits.disk_mib is None:
        return {}
    return {
        _DISK: tmpfs.options(spec.limits.disk_mib),
        _TEMPORARY_DISK: tmpfs.options(spec.limits.temporary_mib),
    }
