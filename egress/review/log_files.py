"""The files of all chains of a log, each with a number that an index keeps for it.

The files of the first chain keep their own numbers. Above them, the number of a file tells its chain, so the
same file has the same number in every process, without a table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self
from zlib import crc32

from egress.audit import files
from egress.audit.chain_folders import ChainFolder, chain_folders
from egress.audit.verify import NoLogError
from egress.errors import UnreadableError, reason_of

FILE_BITS: Final = 40
"""Bits for the number of a file in its chain, which has at most 12 digits."""
_MAX_KEY: Final = 1 << 22
_FIRST_OLD_KEY: Final = 1 << 14
"""Chains of this version have smaller keys: their numbers have 4 digits."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file of a chain."""

    number: int
    """Its number in the whole log."""
    path: Path
    chain: ChainFolder
    is_newest: bool
    """True for the newest file of its chain, which may grow."""

    @property
    def name(self) -> str:
        """Its path from the folder of the log."""
        return self.chain.file(self.path.name)

    def size(self) -> int:
        """Return its size in bytes; 0 if it was deleted. Raises `OSError`."""
        try:
            return self.path.stat().st_size
        except FileNotFoundError:
            return 0


class LogFiles:
    """The files of a log, as they were at one moment."""

    def __init__(self, found: dict[int, LogFile]) -> None:
        self._found = found

    @classmethod
    def of(cls, log: Path) -> Self:
        """List the files of every chain. Raises `OSError`."""
        return cls({file.number: file for file in _listed(log)})

    @classmethod
    def there(cls, log: Path) -> Self:
        """List the files of every chain. Raises `UnreadableError` without any, and if that fails."""
        try:
            found = cls.of(log)
        except OSError as error:
            message = f"the audit log in {log} cannot be read: {reason_of(error)}"
            hint = "a first run makes it; name another folder with --dir"
            raise UnreadableError(message, hint) from None
        if not found:
            raise NoLogError.of(log)
        return found

    def __iter__(self) -> Iterator[LogFile]:
        """Yield the files of one chain after the other, oldest first."""
        return iter(self._found.values())

    def __len__(self) -> int:
        return len(self._found)

    def get(self, number: int) -> LogFile | None:
        """Return the file with this number; None without one."""
        return self._found.get(number)


def file_number(chain: int, number: int) -> int:
    """Return the number that a file of a chain has in the whole log."""
    return chain << FILE_BITS | number


def chain_key(number: int) -> int:
    """Return the number of the chain that a file belongs to."""
    return number >> FILE_BITS


def _listed(log: Path) -> Iterator[LogFile]:
    taken: set[int] = set()
    # Iterated lazily, a chain that appears meanwhile is in the next list.
    for chain in chain_folders(log):
        try:
            numbers = files.numbers(chain.path)
        except FileNotFoundError:
            # A later chain may be deleted meanwhile; without its folder there is no log.
            if chain.number == 1 and not log.exists():
                raise
            continue
        key = _key(chain, taken)
        taken.add(key)
        for number in numbers:
            path = chain.path / files.name(number)
            yield LogFile(file_number(key, number), path, chain, is_newest=number == numbers[-1])


def _key(chain: ChainFolder, taken: set[int]) -> int:
    """Return the number of a chain of this version less 1; of an older one, a number made of its name."""
    if chain.number:
        return chain.number - 1
    key = _FIRST_OLD_KEY + crc32(chain.place.encode()) % (_MAX_KEY - _FIRST_OLD_KEY)
    # Two names with one number are rare. An index notices if the file behind a number is another one.
    while key in taken:
        key += 1
    return key
