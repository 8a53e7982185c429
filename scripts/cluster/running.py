"""Which process is the node, if one runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from scripts.cluster.folders import NodeFolders


@dataclass(frozen=True, slots=True)
class RunningNode:
    """The process that the node ends with. Its start tells it from a later process of the same number."""

    folders: NodeFolders
    process: int
    start: str

    @classmethod
    def of(cls, folders: NodeFolders, process: int) -> RunningNode:
        return cls(folders, process, _start_of(process))

    def write(self) -> None:
        self.folders.process.write_text(f"{self.process} {self.start}\n", "ascii")

    def children(self) -> list[int]:
        """The first process of the node's namespaces, as the machine numbers it."""
        try:
            found = Path(f"/proc/{self.process}/task/{self.process}/children").read_text("ascii")
        except FileNotFoundError:
            return []
        return [int(number) for number in found.split()]

    def cost(self) -> str:
        """Say what the node takes now: memory of its parts, and room on the disk."""
        memory = sum(_memory_of(each) for each in _descendants(self.process))
        files = sum(each.lstat().st_size for each in self.folders.root.rglob("*") if each.is_file())
        return f"{memory / 2**20:.0f} MiB of memory, {files / 2**20:.0f} MiB of files"


def find_running(folders: NodeFolders) -> RunningNode | None:
    """Find the node that was started with these folders and still runs."""
    try:
        process, start = folders.process.read_text("ascii").split()
    except (FileNotFoundError, ValueError):
        return None
    return RunningNode(folders, int(process), start) if _start_of(int(process)) == start else None


def _start_of(process: int) -> str:
    """When a process began, in ticks of the machine; empty if there is no such process."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text("ascii", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
    # The name before it is in brackets, and may hold anything. One that ended and was not waited for is gone.
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] == "Z" else fields[19]


def _descendants(process: int) -> list[int]:
    found, waiting = [], [process]
    while waiting:
        each = waiting.pop()
        found.append(each)
        try:
            children = Path(f"/proc/{each}/task/{each}/children").read_text("ascii")
        except FileNotFoundError:
            continue
        waiting += [int(number) for number in children.split()]
    return found


def _memory_of(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/status").read_text("utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return 0
    found = [line.split()[1] for line in lines if line.startswith("VmRSS:")]
    return int(found[0]) * 1024 if found else 0
