"""The folder of each namespace sandbox on the host, and the removal of leftovers of dead owners.

Processes, networks and mounts end with their owner. The leftovers are folders with files of a sandbox, and
empty control groups, which a note in the folder lists.
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
"""Names read at a time: a sandbox can create millions of files."""


def write_note(folder: Path, lease: str, name: str, groups: Iterable[Path]) -> None:
    """Record the owner of a folder, and the sandbox's control groups."""
    text = json.dumps({"name": name, "groups": [str(each) for each in groups]})
    (folder / _NOTE_NAME).write_text(text, encoding="utf-8")
    write_owner(folder, lease)


def remove_folder(folder: Path) -> None:
    """Remove a folder with everything that a sandbox has put into it, against any obstruction.

    Nested folders can be deeper than a path can be long, and than a process has descriptors. So each folder
    is moved to one flat yard before it is emptied.
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
    # The files that name the owner go last: an interrupted removal can then be repeated.
    _unlink_all(top)


def _empty_folder(top: int, yard: int, name: str) -> None:
    """Move all folders below `top` into the yard, and remove them there."""
    numbers = itertools.count()
    waiting: list[str] = []
    while found := _move_folders(top, yard, numbers, but=name):
        waiting += found
    # Each folder is renamed into the yard before its content is read, so depth never adds up.
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
    """Move some folders from a place to the yard; returns their names there."""
    found = []
    with os.scandir(place) as entries:
        folders = (each.name for each in entries if _is_folder(each) and each.name != but)
        for name in itertools.islice(folders, _BATCH_ENTRIES):
            with suppress(OSError):
                # A folder without permissions for its owner can neither be moved nor read.
                os.chmod(name, stat.S_IRWXU, dir_fd=place)
                new = str(next(numbers))
                os.rename(name, new, src_dir_fd=place, dst_dir_fd=yard)
                found.append(new)
    return found


def _unlink_all(place: int) -> None:
    """Remove all entries that are no folders."""
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


def reap(home: Path, proxy: ProxyClient | None = None) -> tuple[str, ...]:
    """Remove leftovers of dead owners; returns the names of the sandboxes."""
    found = []
    for folder in sorted(home.iterdir()) if home.is_dir() else ():
        lease = Path(owner_of(folder)) if folder.is_dir() else Path()
        # Folders without our owner file are not ours to delete.
        if lease.parent != home or is_held(lease):
            # Groups first: processes in them could otherwise go on writing to the folder.
            continue
        name, groups = _read_note(folder)
        cgroups.remove(groups)
        remove_folder(folder)
        if name:
            found.append(name)
        lease.unlink(missing_ok=True)
    if proxy is not None:
        for name in found:
            proxy.dismiss(name)
    return tuple(found)


def _read_note(folder: Path) -> tuple[str, list[Path]]:
    try:
        read = json.loads((folder / _NOTE_NAME).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "", []
    if not isinstance(read, dict) or not isinstance(read.get("groups"), list):
        return "", []
    # The note lies beside a sandbox's files: only groups with our name are accepted.
    groups = [Path(str(each)) for each in read["groups"]]
    return str(read.get("name", "")), [each for each in groups if "egress-" in str(each)]
