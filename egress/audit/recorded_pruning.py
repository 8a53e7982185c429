"""Deletion of the oldest log files with a record: first in the anchor, then in a log line.

The anchor is written before the first deletion, so no file disappears without a trace. Only the writer of the
log can add a line: a running proxy checks the anchor once a second, and every start checks it. A flag in the
anchor marks the line as written. A kill or a full disk between line and flag writes the line twice, and never
loses it.
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
"""The author of deletions by the limit on kept files."""


def delete_files(
    directory: Path, keys: Keys, gone: Sequence[int], first: int, by: str, at: int, *, is_forced: bool = False
) -> bool:
    """Delete the files before `first`; False if no authentic line of `first` names the MAC before it.

    The caller holds `files.lock_oldest`. Raises `OSError`.
    """
    with (directory / files.name(first)).open("rb") as file:
        line = first_line(read_lines(file), Chain(keys.line))
    if line is None:
        return False
    size = sum(files.size(directory, number) for number in gone)
    pruning = Pruning(by, at, len(gone), size, line.seq, is_forced)
    # Anchor first: a crash after it leaves extra files, and a crash before it changes nothing.
    pruning = _with_unrecorded(directory, keys, pruning)
    files.write_anchor(directory, keys.anchor, first, previous_mac_in(line), pruning)
    for number in gone:
        (directory / files.name(number)).unlink(missing_ok=True)
    return True


def _with_unrecorded(directory: Path, keys: Keys, pruning: Pruning) -> Pruning:
    """Merge earlier deletions that have no log line yet."""
    try:
        before = files.read_anchor(directory, keys.anchor)
    except ValueError:
        # The anchor is damaged, which only a forced deletion gets past: its record cannot be read.
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
    """Deletions without a log line, for the writer of the log."""

    def __init__(self, directory: Path, key: bytes) -> None:
        """`key` is the anchor key."""
        self._directory = directory
        self._key = key
        self._seen: tuple[int, int] | None = None

    def record_due(self, write: Callable[[Pruning], bool]) -> None:
        """Write a line if one is due; `write` returns True once the kernel took it. Cheap if none is due.

        During a deletion by another process this does nothing; the next call tries again. Raises `OSError`.
        """
        # Each call costs one `stat`: the writer calls every second, and deletions alone change the anchor.
        now = self._state()
        if now is None or now == self._seen:
            return
        lock = files.lock_oldest(self._directory)
        if lock is None:
            return
        try:
            if self._is_recorded(write):
                self._seen = self._state()
        finally:
            os.close(lock)

    def _is_recorded(self, write: Callable[[Pruning], bool]) -> bool:
        try:
            anchor = files.read_anchor(self._directory, self._key)
        except ValueError:
            # A foreign anchor holds no record of ours; `verify` reports it.
            return True
        if anchor is None or anchor.pruning is None or anchor.is_told:
            return True
        if not write(anchor.pruning):
            return False
        files.write_anchor(self._directory, self._key, anchor.file, anchor.mac, anchor.pruning, is_told=True)
        return True

    def _state(self) -> tuple[int, int] | None:
        """Return a value that differs for every new anchor."""
        try:
            found = (self._directory / files.ANCHOR).stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns
