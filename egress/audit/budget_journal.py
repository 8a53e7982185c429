"""The journal of the budgets: a file beside a chain of the log, with each change before it holds.

A line is one change. A proxy that ended without a last word left calls that nobody settled; they count in
full. A file that is gone or empty although it was there, or whose lines cannot be read, is a lost journal:
then every window that reaches back to this start counts as full. A last line without its end was never acted
on, and is dropped.

A file that has grown is written anew, with what the accounts hold now.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec

from egress.budgets.budget_desk import BudgetJournalError
from egress.budgets.ledger import JournalEntry, Ledger

JOURNAL_NAME: Final = "budgets.journal"
KEPT_NAME: Final = "budgets.kept"
"""An empty file that says that there was a journal."""
MAX_JOURNAL_BYTES: Final = 4 << 20
"""Bytes from which the journal is written anew, unless the accounts need more."""
_FILE_MODE: Final = 0o600
_HINT: Final = "check the disk and the owner of the folder of the log"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(JournalEntry).decode


class BudgetJournal:
    """The journal of one proxy."""

    def __init__(self, folder: Path) -> None:
        """`folder` is that of a chain of the log, which no other proxy writes to."""
        self._path = folder / JOURNAL_NAME
        self._kept = folder / KEPT_NAME
        self._size = 0
        self._most = MAX_JOURNAL_BYTES
        """The size from which it is written anew."""
        self._ledger: Ledger | None = None
        self._file: int | None = None
        self._is_torn = False

    def open(self, now: int) -> Ledger:
        """Return the ledger as the journal has it. Raises `BudgetJournalError`."""
        ledger = self._ledger = Ledger()
        try:
            entries = self._read()
            for entry in entries or ():
                ledger.apply(entry)
            ledger.charge_unsettled(now)
            if entries is None:
                ledger.apply(JournalEntry("lost", at=now))
            if entries is None or entries:
                self._rewrite(now)
        except OSError as error:
            raise self._fault(error) from None
        ledger.journal = self._append
        return ledger

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _read(self) -> list[JournalEntry] | None:
        """Return the lines of the file; None for one that is lost."""
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return None if self._kept.exists() else []
        if not data:
            # Every file begins with a line: the disk may have kept a file and not its contents.
            return None
        *lines, _ = data.split(b"\n")
        try:
            return [_decode(line) for line in lines]
        except msgspec.MsgspecError:
            return None

    def _append(self, entry: JournalEntry) -> None:
        try:
            if self._is_torn or self._size > self._most:
                self._rewrite(entry.at, entry)
            else:
                self._write(_encode(entry) + b"\n")
        except OSError as error:
            # A part of a line may be in the file, and the next line must not continue it.
            self._is_torn = True
            raise self._fault(error) from None
        self._is_torn = False

    def _write(self, line: bytes) -> None:
        if self._file is None:
            self._kept.touch(_FILE_MODE)
            self._file = self._opened(self._path, os.O_APPEND)
        if os.write(self._file, line) != len(line):
            raise OSError("a line was written in part")
        self._size += len(line)

    def _rewrite(self, now: int, last: JournalEntry | None = None) -> None:
        if self._ledger is None:
            return
        entries = [*self._ledger.snapshot(now), *([last] if last is not None else [])]
        entries = entries or [JournalEntry("accepted", at=now)]
        data = b"".join(_encode(entry) + b"\n" for entry in entries)
        fresh = self._path.with_suffix(".new")
        with os.fdopen(self._opened(fresh, os.O_TRUNC), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._path)
        self._kept.touch(_FILE_MODE)
        self.close()
        self._file = self._opened(self._path, os.O_APPEND)
        self._size = len(data)
        # Accounts alone may be as large, and writing them must not follow each line.
        self._most = max(MAX_JOURNAL_BYTES, 2 * len(data))

    @staticmethod
    def _opened(path: Path, flags: int) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | flags, _FILE_MODE)

    def _fault(self, error: OSError) -> BudgetJournalError:
        return BudgetJournalError(f"{self._path} cannot be written: {error.strerror or error}", _HINT)
