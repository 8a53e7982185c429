"""What a sandbox may use up: by control groups where they can be written, else by bounds of each process.

Both versions of control groups are known, and both at once. In each hierarchy a group is made below the one
that this process is in. Freezing needs version 2, which most machines have mounted beside the first. What no
group bounds is told, so that it can be bounded otherwise, and be said.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from egress.runtime import open_file_limit, tmpfs
from egress.runtime.namespace.inside import kernel
from egress.runtime.spec import MIB, SandboxLimits

_MOUNTINFO_PATH: Final = Path("/proc/self/mountinfo")
_CGROUP_PATH: Final = Path("/proc/self/cgroup")
_CPU_PERIOD: Final = 100_000
_OWN_PROCESSES: Final = 3
"""Processes of the sandbox that are not its commands."""
_OWN_MEMORY_BYTES: Final = 24 * MIB
_CONTROLLERS: Final = ("memory", "pids", "cpu")
_CGROUP_TIMEOUT: Final = 5.0
_MIN_DATA_BYTES: Final = 16 * MIB


@dataclass(frozen=True, slots=True)
class CgroupHierarchy:
    """A tree of control groups: where this process is in it, and what it can bound."""

    version: int
    folder: Path
    kinds: frozenset[str]


def parse_hierarchies(mounts: str, mine: str) -> tuple[CgroupHierarchy, ...]:
    """Those of this machine, by /proc/self/mountinfo and /proc/self/cgroup. Pure."""
    paths = {}
    for line in mine.splitlines():
        _, controllers, path = line.split(":", 2)
        paths[controllers] = path
    found = []
    for line in mounts.splitlines():
        words, _, rest = line.partition(" - ")
        kind, _, options = (*rest.split(), "", "")[:3]
        root, point = words.split()[3:5]
        if kind == "cgroup2" and "" in paths:
            found.append(CgroupHierarchy(2, _below(point, root, paths[""]), frozenset()))
        elif kind == "cgroup":
            for controllers, path in paths.items():
                names = frozenset(controllers.split(",")) & set(_CONTROLLERS) & set(options.split(","))
                if names:
                    found.append(CgroupHierarchy(1, _below(point, root, path), names))
    return tuple(found)


def _below(point: str, root: str, path: str) -> Path:
    inside = path.removeprefix(root) if root != "/" else path
    return Path(point) / inside.lstrip("/")


@dataclass(slots=True)
class ControlGroups:
    """The control groups of one sandbox."""

    folders: list[Path]
    joined: list[Path]
    """Files that take a process into those that bound it."""
    freezer: Path | None
    bounded: frozenset[str]
    """What of memory, processes and processor time they bound."""

    @property
    def joining(self) -> Path | None:
        return self.freezer / "cgroup.procs" if self.freezer else None

    def freeze(self, *, is_frozen: bool) -> None:
        """Stop all that is in the group, or let it go on. Returns when it is so."""
        if self.freezer is None:
            return
        (self.freezer / "cgroup.freeze").write_text("1" if is_frozen else "0", encoding="ascii")
        wanted = f"frozen {int(is_frozen)}"
        end = time.monotonic() + _CGROUP_TIMEOUT
        while wanted not in (self.freezer / "cgroup.events").read_text(encoding="ascii"):
            if time.monotonic() > end:
                return
            time.sleep(0.002)

    def remove(self) -> None:
        """Take them away, with whatever is still in them."""
        remove(self.folders)


def make(name: str, limits: SandboxLimits, found: Iterable[CgroupHierarchy]) -> ControlGroups:
    """The groups of a sandbox; where one cannot be made or set, it is not."""
    groups = ControlGroups([], [], None, frozenset())
    for each in found:
        folder = each.folder / f"egress-{name}"
        try:
            folder.mkdir()
        except OSError:
            continue
        groups.folders.append(folder)
        kinds = each.kinds if each.version == 1 else _offered_controllers(folder)
        done = frozenset(kind for kind in kinds if _set_limit(folder, each.version, kind, limits))
        if done:
            groups.bounded |= done
            groups.joined.append(folder / "cgroup.procs")
        if each.version == 2:
            _add_freezer(groups, folder)
    return groups


def _add_freezer(groups: ControlGroups, folder: Path) -> None:
    inner = folder / "commands"
    with suppress(OSError):
        inner.mkdir()
        groups.folders.append(inner)
        if (inner / "cgroup.freeze").exists():
            groups.freezer = inner


def _offered_controllers(folder: Path) -> frozenset[str]:
    try:
        return frozenset((folder / "cgroup.controllers").read_text(encoding="ascii").split()) & set(
            _CONTROLLERS
        )
    except OSError:
        return frozenset()


def _set_limit(folder: Path, version: int, kind: str, limits: SandboxLimits) -> bool:
    memory, processes = tmpfs.memory_limit(limits) + _OWN_MEMORY_BYTES, limits.processes + _OWN_PROCESSES
    quota = max(1000, math.ceil(limits.cpus * _CPU_PERIOD))
    wanted: Mapping[tuple[int, str], list[tuple[str, int | str]]] = {
        (1, "memory"): [("memory.limit_in_bytes", memory)],
        (2, "memory"): [("memory.max", memory)],
        (1, "pids"): [("pids.max", processes)],
        (2, "pids"): [("pids.max", processes)],
        (1, "cpu"): [("cpu.cfs_period_us", _CPU_PERIOD), ("cpu.cfs_quota_us", quota)],
        (2, "cpu"): [("cpu.max", f"{quota} {_CPU_PERIOD}")],
    }
    try:
        for name, value in wanted[version, kind]:
            (folder / name).write_text(str(value), encoding="ascii")
    except OSError:
        return False
    if kind == "memory":
        # Where the machine has no swap, or does not count it, there is nothing to bound.
        with suppress(OSError):
            name, value = ("memory.memsw.limit_in_bytes", memory) if version == 1 else ("memory.swap.max", 0)
            (folder / name).write_text(str(value), encoding="ascii")
    return True


def remove(folders: Iterable[Path]) -> None:
    """Take groups away, those below others first."""
    for folder in sorted(folders, reverse=True):
        with suppress(OSError):
            kernel.write(str(folder / "cgroup.freeze"), "0")
        end = time.monotonic() + _CGROUP_TIMEOUT
        while True:
            try:
                folder.rmdir()
            except FileNotFoundError:
                break
            except OSError:
                # Those in it are on their way out.
                with suppress(OSError):
                    kernel.write(str(folder / "cgroup.kill"), "1")
                if time.monotonic() > end:
                    break
                time.sleep(0.005)
            else:
                break


def find_hierarchies() -> tuple[CgroupHierarchy, ...]:
    """Those that this process is in."""
    try:
        return parse_hierarchies(
            _MOUNTINFO_PATH.read_text(encoding="utf-8"), _CGROUP_PATH.read_text(encoding="utf-8")
        )
    except OSError:
        return ()


def process_limits(limits: SandboxLimits, bounded: frozenset[str]) -> dict[str, int]:
    """Bounds for each process, for what no group bounds. Pure."""
    found = {"files": open_file_limit.MAX_OPEN_FILES}
    if "memory" not in bounded:
        found["data"] = max(limits.memory_mib * MIB, _MIN_DATA_BYTES)
    if "pids" not in bounded:
        found["processes"] = limits.processes
    return found


def probe(found: Iterable[CgroupHierarchy]) -> frozenset[str]:
    """What groups can bound here: found out by making one."""
    groups = make(f"probe-{os.getpid()}-{threading.get_ident()}", SandboxLimits(), found)
    groups.remove()
    return groups.bounded
