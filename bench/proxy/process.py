"""Starting processes on chosen cores, and what /proc says about a tree of them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

PROXY, OTHERS = 0, 1
START_TIMEOUT = 20.0
TICKS = os.sysconf("SC_CLK_TCK")


class NotReadyError(Exception):
    """A process did not come up; the text says why."""


def can_pin() -> bool:
    """Whether there are two cores to keep proxy and load apart."""
    return len(os.sched_getaffinity(0)) >= 2


def start(
    command: Sequence[str], core: int, *, log: Path, env: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a process on the nth of the cores we may use; its children inherit that."""
    cores = sorted(os.sched_getaffinity(0))

    def pin() -> None:
        if len(cores) >= 2:
            os.sched_setaffinity(0, {cores[core]})

    with log.open("wb") as out:
        try:
            return subprocess.Popen(
                command,
                preexec_fn=pin,  # noqa: PLW1509 - there are no threads here
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=None if env is None else dict(env),
            )
        except OSError as error:
            raise NotReadyError(f"{command[0]}: {error.strerror}") from error


def wait_for_port(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    """Return once something accepts on the port; NotReadyError when the process ends or dawdles."""
    deadline = time.monotonic() + START_TIMEOUT
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise NotReadyError(f"it ended with status {process.returncode}: {last_line(log)}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise NotReadyError(f"nothing listened on its port after {START_TIMEOUT:.0f} s: {last_line(log)}")


def last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


def stop(process: subprocess.Popen[bytes]) -> None:
    """End the process and those it started."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            break
        try:
            process.wait(timeout=3)
        except subprocess.TimeoutExpired:
            continue
        break
    process.wait()


def free_port() -> int:
    """A port nobody listens on; whoever wants it has to be quick."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


# /proc --------------------------------------------------------------------------------------------


def tree(root: int) -> list[int]:
    """A process and its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and (fields := _stat(int(entry.name))):
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def cpu_seconds(root: int) -> float:
    """User and system time of the tree, children that have ended included."""
    return sum(sum(map(int, fields[11:15])) for pid in tree(root) if (fields := _stat(pid))) / TICKS


def resident(root: int, field: str = "VmRSS") -> float:
    """Resident memory of the tree in MB; `VmHWM` is the peak since `forget_peak`."""
    return sum(_status(pid, field) for pid in tree(root)) / 1024


def forget_peak(root: int) -> None:
    for pid in tree(root):
        Path(f"/proc/{pid}/clear_refs").write_text("5", encoding="ascii")


def _stat(pid: int) -> list[str]:
    """The fields from the third on; the second, the name, may hold anything."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def _status(pid: int, field: str) -> int:
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith(f"{field}:")), 0)
