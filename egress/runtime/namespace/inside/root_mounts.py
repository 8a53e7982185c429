"""Builds the root file system of a sandbox out of mounts, in its own mount namespace.

The plan is made outside, and arrives as plain values: trees of the host by number, and steps. Trees are
opened with the rights of the host, before the namespaces are entered; steps run inside.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Mapping, Sequence
from typing import Final

from egress.runtime.namespace.inside import system_calls

OLD_ROOT: Final = "/.egress"
"""The place of the old root, until init detaches it."""
_BUILD_FOLDER: Final = "/proc"
"""A folder that exists on every machine."""
_READ_ONLY_PATHS: Final = ("/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs")
_COVERED_PATHS: Final = (
    *("/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/scsi"),
    *("/proc/timer_list", "/proc/sched_debug", "/proc/kallsyms", "/proc/kmsg", "/proc/kpagecount"),
)

_OCTAL_ESCAPE: Final = re.compile(rb"\\([0-7]{3})")

Source = Mapping[str, object]
Step = Sequence[object]
Disk = Mapping[str, object]


class HostTrees:
    """Parts of the host, cloned as unattached mounts."""

    def __init__(self, sources: Sequence[Source]) -> None:
        """Open all trees. Raises `OSError` with the path of a failure."""
        self._trees: list[int] = []
        self._below: dict[int, list[str]] = {}
        for source in sources:
            path = str(source["path"])
            try:
                self._open(path, int(str(source["attributes"])), alone=bool(source["alone"]))
            except OSError as error:
                raise OSError(error.errno, error.strerror, path) from None

    def _open(self, path: str, attributes: int, *, alone: bool) -> None:
        number = len(self._trees)
        tree = self._opened(path, number, alone=alone)
        self._trees.append(tree)
        system_calls.restrict(tree, attributes)

    def _opened(self, path: str, number: int, *, alone: bool) -> int:
        if not alone:
            return system_calls.open_tree(path, recursive=True)
        place = _open_without_links(path)
        try:
            try:
                return system_calls.open_tree_of(place, recursive=False)
            except OSError as error:
                # In an unprivileged user namespace, mounts below cannot be left out: they might hide files of
                # the host. So they are cloned too, and covered.
                if error.errno != errno.EINVAL:
                    raise
            self._below[number] = _mounted_below(path)
            return system_calls.open_tree_of(place, recursive=True)
        finally:
            os.close(place)

    def attach(self, number: int, path: str) -> None:
        system_calls.attach(self._trees[number], path)
        os.close(self._trees[number])
        for each in self._below.get(number, ()):
            _cover(path.rstrip("/") + each)


def _open_without_links(path: str) -> int:
    """Open a path that must not contain links: a link would be newer than the check of the path."""
    place = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    if stat.S_ISLNK(os.fstat(place).st_mode) or os.readlink(f"/proc/self/fd/{place}") != path:  # noqa: PTH115
        os.close(place)
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return place


def _mounted_below(path: str) -> list[str]:
    with open("/proc/self/mountinfo", "rb") as file:  # noqa: PTH123
        points = [_unescape_path(line.split()[4]) for line in file]
    whole = path.rstrip("/") + "/"
    return sorted(point[len(whole) - 1 :] for point in points if point.startswith(whole) and point != whole)


def _unescape_path(point: bytes) -> str:
    """A path of /proc/self/mountinfo: special characters are three octal digits."""
    return os.fsdecode(_OCTAL_ESCAPE.sub(lambda found: bytes([int(found[1], 8)]), point))


def _cover(path: str) -> None:
    """Hide a file or folder."""
    if os.path.isdir(path):  # noqa: PTH112
        system_calls.mount("tmpfs", path, "mode=0555,size=4k", ("nosuid", "nodev", "noexec"))
        system_calls.restrict_path(path, system_calls.READ_ONLY)
    elif os.path.exists(path):  # noqa: PTH110
        tree = system_calls.open_tree("/dev/null", recursive=False)
        system_calls.attach(tree, path)
        os.close(tree)


def build(trees: HostTrees, steps: Sequence[Step]) -> None:
    """Make the new root and enter it; the old one stays visible at `OLD_ROOT`."""
    system_calls.keep_mounts_private()
    system_calls.mount("tmpfs", _BUILD_FOLDER, "mode=0755")
    os.mkdir(_BUILD_FOLDER + OLD_ROOT, 0o700)  # noqa: PTH102
    # pivot_root instead of chroot: a process with capabilities can leave a chroot.
    system_calls.pivot_root(_BUILD_FOLDER, _BUILD_FOLDER + OLD_ROOT)
    os.chdir("/")
    for step in steps:
        _take_step(step, trees)


def _take_step(step: Step, trees: HostTrees) -> None:
    what, path = str(step[0]), str(step[1])
    if what == "folder":
        os.mkdir(path, 0o755)  # noqa: PTH102
    elif what == "file":
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o444))
    elif what == "link":
        os.symlink(str(step[2]), path)  # noqa: PTH211
    elif what == "tree":
        trees.attach(int(str(step[2])), path)
    elif what == "memory":
        system_calls.mount("tmpfs", path, str(step[2]))
    elif what == "still":
        system_calls.restrict_path(path, system_calls.READ_ONLY)
    else:
        raise ValueError(what)


def add_disks(disks: Sequence[Disk], owner: int) -> None:
    """Create the file systems of one run, with folders owned by the sandbox's user.

    Each is mounted at a hidden place, and its folders are bind mounted to their paths: they share its size.
    """
    for disk in disks:
        system_calls.mount("tmpfs", OLD_ROOT, str(disk["options"]))
        places = disk["places"]
        for number, (path, mode, inside) in enumerate(places if isinstance(places, list) else ()):
            folder = f"{OLD_ROOT}/{number}"
            os.mkdir(folder)  # noqa: PTH102
            os.chown(folder, owner, owner)
            os.chmod(folder, mode)  # noqa: PTH101
            _replace(path, folder, inside, owner)
        system_calls.detach(OLD_ROOT)


def _replace(path: str, folder: str, inside: Sequence[str], owner: int) -> None:
    """Replace a folder by another, and keep the mounts inside of the replaced one."""
    kept = [(each, os.path.isdir(each), system_calls.open_tree(each, recursive=True)) for each in inside]  # noqa: PTH112
    for each, is_folder, _ in kept:
        _make_place(folder, each.removeprefix(path.rstrip("/") + "/"), owner, is_folder=is_folder)
    tree = system_calls.open_tree(folder, recursive=False)
    system_calls.attach(tree, path)
    os.close(tree)
    for each, _, tree in kept:
        system_calls.attach(tree, each)
        os.close(tree)


def _make_place(folder: str, name: str, owner: int, *, is_folder: bool) -> None:
    """Create a mount point, with the folders above it."""
    *above, last = name.split("/")
    at = folder
    for part in (*above, last) if is_folder else above:
        at = f"{at}/{part}"
        if not os.path.isdir(at):  # noqa: PTH112
            os.mkdir(at, 0o755)  # noqa: PTH102
            os.chown(at, owner, owner)
    if not is_folder:
        os.close(os.open(f"{at}/{last}", os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o444))


def complete(shared: str) -> None:
    """Add the file systems of one run: processes, terminals and shared memory.

    `shared` holds the mount options of shared memory. Afterwards the old root is gone.
    """
    # A new /proc shows only the processes of this run's PID namespace.
    system_calls.mount("proc", "/proc", "", ("nosuid", "nodev", "noexec"))
    for path in _COVERED_PATHS:
        _cover(path)
    system_calls.mount("devpts", "/dev/pts", "newinstance,ptmxmode=0666,mode=0620", ("nosuid", "noexec"))
    system_calls.mount("tmpfs", "/dev/shm", shared)  # noqa: S108 - that of the sandbox
    system_calls.detach(OLD_ROOT)


def close() -> None:
    """Make kernel settings and the root itself read-only."""
    for path in _READ_ONLY_PATHS:
        if os.path.exists(path):  # noqa: PTH110
            tree = system_calls.open_tree(path, recursive=True)
            system_calls.restrict(tree, system_calls.READ_ONLY)
            system_calls.attach(tree, path)
            os.close(tree)
    system_calls.restrict_path("/", system_calls.READ_ONLY)
