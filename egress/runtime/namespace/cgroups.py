"""Limits a sandbox's resources: by control groups where possible, else by limits of each process.

Both versions of control groups are supported, also mixed. In each hierarchy a group is created below the
group of this process. Freezing needs version 2, which most machines mount beside the first. Resources without
a group are reported, so that they can be limited per process, and shown to the operator.
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
from egress.runtime.namespace.inside import system_calls
from egress.runtime.spec import MIB, SandboxLimits

_MOUNTINFO_PATH: Final = Path("/proc/self/mountinfo")
_CGROUP_PATH: Final = Path("/proc/self/cgroup")
_CPU_PERIOD: Final = 100_000
_OWN_PROCESSES: Final = 3
"""Processes of the sandbox besides its commands."""
_OWN_MEMORY_BYTES: Final = 24 * MIB
_CONTROLLERS: Final = ("memory", "pids", "cpu")
_CGROUP_TIMEOUT: Final = 5.0
_MIN_DATA_BYTES: Final = 16 * MIB


@dataclass(frozen=True, slots=True)
class CgroupHierarchy:
    """A hierarchy of control groups: this process's folder in it, and its controllers."""

    version: int
    folder: Path
    kinds: frozenset[str]


def parse_hierarchies(mounts: str, mine: str) -> tuple[CgroupHierarchy, ...]:
    """The hierarchies of this machine, by /proc/self/mountinfo and /proc/self/cgroup. Pure."""
    paths = {}
    for line in mine.splitlines():
        _, controllers, path = line.split(":", 2)
        paths[controllers] = path
    found = []
    # The format of mountinfo has a variable part in the middle, which ends with a single dash.
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
    """Files that move a process into the limiting groups."""
    freezer: Path | None
    bounded: frozenset[str]
    """The resources that the groups limit: memory, pids, cpu."""

    @property
    def joining(self) -> Path | None:
        return self.freezer / "cgroup.procs" if self.freezer else None

    def freeze(self, *, is_frozen: bool) -> None:
        """Freeze or thaw all processes of the group. Returns when it is done."""
        if self.freezer is None:
            return
        # The kernel freezes asynchronously; cgroup.events reports the end.
        (self.freezer / "cgroup.freeze").write_text("1" if is_frozen else "0", encoding="ascii")
        wanted = f"frozen {int(is_frozen)}"
        end = time.monotonic() + _CGROUP_TIMEOUT
        while wanted not in (self.freezer / "cgroup.events").read_text(encoding="ascii"):
            if time.monotonic() > end:
                return
            time.sleep(0.002)

    def remove(self) -> None:
        """Remove the groups, and kill remaining processes."""
        remove(self.folders)


def make(name: str, limits: SandboxLimits, found: Iterable[CgroupHierarchy]) -> ControlGroups:
    """Make the groups of a sandbox; a group that cannot be made or set is left out."""
    groups = ControlGroups([], [], None, frozenset())
    for each in found:
        folder = each.folder / f"egress-{name}"
        try:
            folder.mkdir()
        # A hierarchy without write access limits nothing; `process_limits` covers its resources.
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
        # Without swap, or without swap accounting, the file is missing.
        with suppress(OSError):
            name, value = ("memory.memsw.limit_in_bytes", memory) if version == 1 else ("memory.swap.max", 0)
            (folder / name).write_text(str(value), encoding="ascii")
    return True


def remove(folders: Iterable[Path]) -> None:
    """Remove groups, children before parents."""
    for folder in sorted(folders, reverse=True):
        with suppress(OSError):
            system_calls.write(str(folder / "cgroup.freeze"), "0")
        end = time.monotonic() + _CGROUP_TIMEOUT
        while True:
            try:
                folder.rmdir()
            except FileNotFoundError:
                break
            except OSError:
                # Killed processes leave the group only after a moment.
                with suppress(OSError):
                    system_calls.write(str(folder / "cgroup.kill"), "1")
                if time.monotonic() > end:
                    break
                time.sleep(0.005)
            else:
                break


def find_hierarchies() -> tuple[CgroupHierarchy, ...]:
    """The hierarchies of this process."""
    try:
        return parse_hierarchies(
            _MOUNTINFO_PATH.read_text(encoding="utf-8"), _CGROUP_PATH.read_text(encoding="utf-8")
        )
    except OSError:
        return ()


def process_limits(limits: SandboxLimits, bounded: frozenset[str]) -> dict[str, int]:
    """Limits of each process, for resources without a group. Pure."""
    found = {"files": open_file_limit.MAX_OPEN_FILES}
    if "memory" not in bounded:
        found["data"] = max(limits.memory_mib * MIB, _MIN_DATA_BYTES)
    if "pids" not in bounded:
        found["processes"] = limits.processes
    return found


def probe(found: Iterable[CgroupHierarchy]) -> frozenset[str]:
    """The resources that groups can limit here, found out with a temporary group."""
    groups = make(f"probe-{os.getpid()}-{threading.get_ident()}", SandboxLimits(), found)
    groups.remove()
    return groups.bounded
