"""Letting go of the oldest files, on the record: the anchor says who did it, and then a line of the log.

Theory of operation. The anchor is written before the first file goes, so nothing is deleted without a
trace. Only the writer of the log can add a line, so whoever deletes leaves that to it: a proxy that runs
looks at the anchor once a second, and every start does. A mark on the anchor says that the line is there.
A kill or a full disk between the two makes the line come twice, never not at all.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from egress.audit import files
from egress.audit.chain import Chain, Keys
from egress.audit.files import Pruning
from egress.audit.resume_point import first_line, previous_mac_in, read_lines

PROXY = "the proxy"
"""Who deletes by the setting for how many files are kept."""


def delete_files(
    directory: Path, keys: Keys, gone: Sequence[int], first: int, by: str, at: int, *, is_forced: bool = False
) -> bool:
    """Delete these files, of which `first` is the next; false when it does not say what stood before it.

    The caller holds `files.lock_oldest`. Raises `OSError`.
    """
    with (directory / files.name(first)).open("rb") as file:
        line = first_line(read_lines(file), Chain(keys.line))
    if line is None:
        return False
    size = sum(files.size(directory, number) for number in gone)
    pruning = Pruning(by, at, len(gone), size, line.seq, is_forced)
    pruning = _with_untold(directory, keys, pruning)
    files.write_anchor(directory, keys.anchor, first, previous_mac_in(line), pruning)
    for number in gone:
        (directory / files.name(number)).unlink(missing_ok=True)
    return True


def _with_untold(directory: Path, keys: Keys, pruning: Pruning) -> Pruning:
    """The same with what was deleted before and has no line yet."""
    try:
        before = files.read_anchor(directory, keys.anchor)
    except ValueError:
        # Damaged, or nothing would have been deleted without being forced to.
        return pruning
    other = None if before is None or before.is_told else before.pruning
    if other is None:
        return pruning
    return replace(
        pruning,
        by=", ".join(dict.fromkeys([pruning.by, *other.by.split(", ")])),
        files=pruning.files + other.files,
        size=pruning.size + other.size,
        is_forced=pruning.is_forced or other.is_forced,
    )


class PendingPrunings:
    """What was deleted and has no line yet, as the writer of the log sees it."""

    def __init__(self, directory: Path, key: bytes) -> None:
        """`key` is that of anchors."""
        self._directory = directory
        self._key = key
        self._seen: tuple[int, int] | None = None

    def record_due(self, write: Callable[[Pruning], bool]) -> None:
        """Have a line written if one is due; `write` says whether the kernel took it. Cheap when none is.

        Tried again the next time where somebody is deleting just now. Raises `OSError`.
        """
        now = self._state()
        if now is None or now == self._seen:
            return
        lock = files.lock_oldest(self._directory)
        if lock is None:
            return
        try:
            if self._told(write):
                self._seen = self._state()
        finally:
            os.close(lock)

    def _told(self, write: Callable[[Pruning], bool]) -> bool:
        try:
            anchor = files.read_anchor(self._directory, self._key)
        except ValueError:
            # Not ours: `verify` says so. There is nothing to tell.
            return True
        if anchor is None or anchor.pruning is None or anchor.is_told:
            return True
        if not write(anchor.pruning):
            return False
        files.write_anchor(self._directory, self._key, anchor.file, anchor.mac, anchor.pruning, is_told=True)
        return True

    def _state(self) -> tuple[int, int] | None:
        """What another anchor would change."""
        try:
            found = (self._directory / files.ANCHOR).stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns
