"""The mounts of the node: what its programs write to fixed places goes to folders of its own."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from scripts.cluster.folders import NodeFolders
from scripts.cluster.settings import CGROUP

PLACES: Final = {
    "kubelet": Path("/var/lib/kubelet"),
    "containerd": Path("/var/lib/containerd"),
    "plugins": Path("/var/lib/cni"),
    "pod-logs": Path("/var/log"),
}
"""Folders of the node, and where its programs look for them."""
CGROUPS: Final = Path("/sys/fs/cgroup")


def mount_all(node: NodeFolders) -> None:
    """Mount the node's folders, inside a mount namespace of its own: they end with it."""
    # What is mounted from here on stays in this namespace, and pods see what is mounted later.
    _mount("--make-rprivate", "/")
    _mount("--make-rshared", "/")
    for name, place in PLACES.items():
        folder = node.root / name
        folder.mkdir(mode=0o755)
        place.mkdir(parents=True, exist_ok=True)
        _mount("--bind", str(folder), str(place))
    # Sockets, locks and network namespaces of the machine are not seen here.
    _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")


def cgroups() -> list[Path]:
    """The folder of the node in every hierarchy of control groups: one, or one for each controller."""
    if (CGROUPS / "cgroup.controllers").is_file():
        return [CGROUPS / CGROUP.lstrip("/")]
    # Every kind of hierarchy has this file, also the new one that stands beside those of the old kind.
    found = [each for each in sorted(CGROUPS.iterdir()) if (each / "cgroup.procs").is_file()]
    return [each / CGROUP.lstrip("/") for each in found]


def make_cgroups() -> None:
    """Make the folders below which the kubelet puts its pods."""
    for folder in cgroups():
        folder.mkdir(exist_ok=True)
        # Of an older kind, and empty until somebody fills it: no process could enter.
        for file in ("cpuset.cpus", "cpuset.mems"):
            if (folder / file).is_file() and (folder.parent / "tasks").is_file():
                (folder / file).write_text((folder.parent / file).read_text())


def remove_cgroups() -> None:
    """Remove them, from the leaves: they are empty once the processes of the node have ended."""
    for folder in cgroups():
        for each in sorted(folder.rglob("*"), reverse=True):
            if each.is_dir():
                each.rmdir()
        if folder.is_dir():
            folder.rmdir()


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)
