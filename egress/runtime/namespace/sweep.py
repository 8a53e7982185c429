"""The folder of each sandbox on the host, and what is found of those whose owner ended without a word.

Processes end by themselves with their owner, and networks and mounts with them. What can be left is a folder
with what a sandbox wrote, and empty control groups: they are noted in it.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from egress.runtime.docker.lease import is_held, owner_of, write_owner
from egress.runtime.gateway import Gateway
from egress.runtime.namespace import bounds

_NOTE: Final = "sandbox.json"


def note(folder: Path, lease: str, name: str, groups: Iterable[Path]) -> None:
    """Say in a folder whose it is, and what there is besides."""
    text = json.dumps({"name": name, "groups": [str(each) for each in groups]})
    (folder / _NOTE).write_text(text, encoding="utf-8")
    write_owner(folder, lease)


def remove(folder: Path) -> None:
    """Remove a folder with all that a sandbox has put into it, whatever it did to keep it."""
    shutil.rmtree(folder, onexc=_once_more)


def _once_more(_act: object, path: str, _error: BaseException) -> None:
    # A folder that its owner has closed to himself.
    for each in (str(Path(path).parent), path):
        with suppress(OSError):
            if stat.S_ISDIR(os.lstat(each).st_mode):
                Path(each).chmod(0o700)
    with suppress(OSError):
        if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114
            shutil.rmtree(path, ignore_errors=True)
        else:
            Path(path).unlink()


def sweep(home: Path, gateway: Gateway | None = None) -> tuple[str, ...]:
    """Remove what owners left that live no longer; returns the names of the sandboxes."""
    found = []
    for folder in sorted(home.iterdir()) if home.is_dir() else ():
        lease = Path(owner_of(folder)) if folder.is_dir() else Path()
        # What nobody says is anybody's is not ours to delete.
        if lease.parent != home or is_held(lease):
            continue
        name, groups = _noted(folder)
        bounds.remove(groups)
        remove(folder)
        if name:
            found.append(name)
        lease.unlink(missing_ok=True)
    if gateway is not None:
        for name in found:
            gateway.dismiss(name)
    return tuple(found)


def _noted(folder: Path) -> tuple[str, list[Path]]:
    try:
        read = json.loads((folder / _NOTE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "", []
    if not isinstance(read, dict) or not isinstance(read.get("groups"), list):
        return "", []
    # Only such as are made here.
    groups = [Path(str(each)) for each in read["groups"]]
    return str(read.get("name", "")), [each for each in groups if "egress-" in str(each)]
