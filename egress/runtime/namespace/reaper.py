"""The folder of each sandbox on the host, and what is found of those whose owner ended without a word.

Processes end by themselves with their owner, and networks and mounts with them. What can be left is a folder
with what a sandbox wrote, and empty control groups: they are noted in it.
"""

from __future__ import annotations

import itertools
import json
import os
import secrets
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from egress.runtime.namespace import cgroups
from egress.runtime.owner_lock import is_held, owner_of, write_owner
from egress.runtime.proxy_client import ProxyClient

_NOTE_NAME: Final = "sandbox.json"
_FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_BATCH_ENTRIES: Final = 10_000
"""Names that are held in memory: a sandbox can make millions."""


def write_note(folder: Path, lease: str, name: str, groups: Iterable[Path]) -> None:
    """Say in a folder whose it is, and what there is besides."""
    text = json.dumps({"name": name, "groups": [str(each) for each in groups]})
    (folder / _NOTE_NAME).write_text(text, encoding="utf-8")
    write_owner(folder, lease)


def remove_folder(folder: Path) -> None:
    """Remove a folder with all that a sandbox has put into it, whatever it did to keep it.

    Folders in folders can be deeper than a path can be long, and than there are descriptors. So each is taken
    out of the one it is in before it is emptied, and all lie side by side.
    """
    try:
        top = os.open(folder, _FOLDER_FLAGS)
    except OSError:
        return
    try:
        _flatten(top)
    finally:
        os.close(top)
    with suppress(OSError):
        folder.rmdir()


def _flatten(top: int) -> None:
    yard = secrets.token_hex(16)
    with suppress(OSError):
        os.mkdir(yard, stat.S_IRWXU, dir_fd=top)
        there = os.open(yard, _FOLDER_FLAGS, dir_fd=top)
        try:
            _empty_folder(top, there, yard)
        finally:
            os.close(there)
        os.rmdir(yard, dir_fd=top)
    # Whose it is, is told by files: they go last.
    _unlink_all(top)


def _empty_folder(top: int, yard: int, name: str) -> None:
    """Bring all folders into one, and remove them there."""
    numbers = itertools.count()
    waiting: list[str] = []
    while found := _move_folders(top, yard, numbers, but=name):
        waiting += found
    while waiting:
        name = waiting.pop()
        with suppress(OSError):
            inner = os.open(name, _FOLDER_FLAGS, dir_fd=yard)
            try:
                while found := _move_folders(inner, yard, numbers):
                    waiting += found
                _unlink_all(inner)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=yard)


def _move_folders(place: int, yard: int, numbers: Iterator[int], but: str = "") -> list[str]:
    """Bring some of the folders in a place to the yard; returns what they are called there."""
    found = []
    with os.scandir(place) as entries:
        folders = (each.name for each in entries if _is_folder(each) and each.name != but)
        for name in itertools.islice(folders, _BATCH_ENTRIES):
            with suppress(OSError):
                # One that its owner has closed to himself can neither be moved nor read.
                os.chmod(name, stat.S_IRWXU, dir_fd=place)
                new = str(next(numbers))
                os.rename(name, new, src_dir_fd=place, dst_dir_fd=yard)
                found.append(new)
    return found


def _unlink_all(place: int) -> None:
    """Remove what is no folder."""
    while True:
        with os.scandir(place) as entries:
            names = list(
                itertools.islice((each.name for each in entries if not _is_folder(each)), _BATCH_ENTRIES)
            )
        gone = 0
        for name in names:
            with suppress(OSError):
                os.unlink(name, dir_fd=place)
                gone += 1
        if not gone:
            return


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False)


def reap(home: Path, gateway: ProxyClient | None = None) -> tuple[str, ...]:
    """Remove what owners left that live no longer; returns the names of the sandboxes."""
    found = []
    for folder in sorted(home.iterdir()) if home.is_dir() else ():
        lease = Path(owner_of(folder)) if folder.is_dir() else Path()
        # What nobody says is anybody's is not ours to delete.
        if lease.parent != home or is_held(lease):
            continue
        name, groups = _read_note(folder)
        cgroups.remove(groups)
        remove_folder(folder)
        if name:
            found.append(name)
        lease.unlink(missing_ok=True)
    if gateway is not None:
        for name in found:
            gateway.dismiss(name)
    return tuple(found)


def _read_note(folder: Path) -> tuple[str, list[Path]]:
    try:
        read = json.loads((folder / _NOTE_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "", []
    if not isinstance(read, dict) or not isinstance(read.get("groups"), list):
        return "", []
    # Only such as are made here.
    groups = [Path(str(each)) for each in read["groups"]]
    return str(read.get("name", "")), [each for each in groups if "egress-" in str(each)]
