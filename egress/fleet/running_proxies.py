"""The proxies of this user that run now: that of `egress serve`, and one for each run with sandboxes.

A run keeps the sockets of its proxy in a folder of its own below the runtime folder, so the folders tell
which runs there are. A proxy that is ending answers no more, and counts as ended.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

from egress.control_client import CONTROL_SOCKET, ask_proxy
from egress.errors import UnreadableError
from egress.fleet.embedded_proxy import SANDBOX_NAME
from egress.fleet.folders import EMBEDDED_FOLDER

_MAX_AT_ONCE: Final = 32
_ASK_TIMEOUT: Final = 5.0


@dataclass(frozen=True, slots=True)
class RunProxy:
    """A proxy that has answered."""

    folder: Path
    """The folder of its sockets."""
    run: str
    pid: int
    since: str
    sandboxes: Mapping[str, str]
    """The profile of each sandbox, by name."""
    revoked: frozenset[str] = frozenset()
    """The sandboxes whose access `egress kill` or a canary revoked."""


def proxy_folders(runtime_dir: Path) -> list[Path]:
    """Return the folders of sockets: that of `egress serve` first, then those of runs."""
    runs = runtime_dir / EMBEDDED_FOLDER
    try:
        found = [runtime_dir, *sorted(path for path in runs.iterdir() if path.is_dir())]
    except OSError:
        # Without the folder there were no runs; the folder of another user has none of ours.
        found = [runtime_dir]
    return [folder for folder in found if (folder / CONTROL_SOCKET).exists()]


def running_proxies(runtime_dir: Path) -> list[RunProxy]:
    """Return each proxy that answers, in the order of their folders."""
    # All at once: a proxy that hangs must not hold up the list of the others.
    with ThreadPoolExecutor(_MAX_AT_ONCE) as threads:
        found = threads.map(_asked, proxy_folders(runtime_dir))
        return [proxy for proxy in found if proxy is not None]


def _asked(folder: Path) -> RunProxy | None:
    try:
        status, answer = ask_proxy(folder, "GET", "/status", timeout=_ASK_TIMEOUT)
    except UnreadableError:
        return None
    # 404 while it is starting: it has no sandboxes yet.
    return _read(folder, answer) if status == HTTPStatus.OK else None


def _read(folder: Path, answer: Mapping[str, object]) -> RunProxy:
    """Read the status of another process, whose shape is never assumed."""
    listed = answer.get("sandboxes")
    found: dict[str, str] = {}
    for each in listed if isinstance(listed, list) else ():
        if isinstance(each, dict) and each.get("name") != SANDBOX_NAME:
            found[str(each.get("name"))] = str(each.get("profile") or "")
    killed = answer.get("killed")
    revoked = killed.get("sandbox") if isinstance(killed, dict) else None
    pid = answer.get("pid")
    run, since = (str(answer.get(name) or "") for name in ("run", "since"))
    return RunProxy(
        folder,
        run,
        pid if isinstance(pid, int) else 0,
        since,
        found,
        frozenset(map(str, revoked)) if isinstance(revoked, list) else frozenset(),
    )
