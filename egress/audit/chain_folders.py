"""The folders of the chains of a log: a proxy writes one of them, and proxies side by side write several.

The folder of the log is itself the first chain. A proxy that finds every chain in use begins `chains/0002`,
`chains/0003` and so on. Later proxies continue the chains that are free, so a log has as many chains as
proxies ever ran at once. Versions before 0.3 wrote `runs/ID/audit` beside the folder of the log instead:
these chains are read and never continued.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CHAINS_FOLDER: Final = "chains"
MAX_CHAINS: Final = 9999
FIRST_PLACE: Final = "."
"""The place of the first chain."""
_OLD_RUNS: Final = "runs"
_OLD_LOG: Final = "audit"
_NUMBER = re.compile(r"[0-9]{4}")
_OLD_RUN = re.compile(r"[0-9a-f]{8}")


@dataclass(frozen=True, slots=True)
class ChainFolder:
    """The folder of a chain."""

    place: str
    """Its path from the folder of the log: `.`, `chains/0002`, `../runs/4f2a9c1e/audit`."""
    path: Path
    number: int = 0
    """1 for the first chain; 0 for a chain of a version before 0.3."""

    def file(self, name: str) -> str:
        """Return the path of a file of the chain, from the folder of the log."""
        return name if self.place == FIRST_PLACE else f"{self.place}/{name}"


def chain_folders(log: Path) -> tuple[ChainFolder, ...]:
    """Return the folders of all chains: the first one, the others by number, those of older versions.

    The first is there even without a line. Raises `OSError`.
    """
    return (numbered_chain(log, 1), *_later_chains(log), *_old_chains(log))


def numbered_chain(log: Path, number: int) -> ChainFolder:
    """Return the folder of a chain that this version may write."""
    if number == 1:
        return ChainFolder(FIRST_PLACE, log, 1)
    name = f"{number:04d}"
    return ChainFolder(f"{CHAINS_FOLDER}/{name}", log / CHAINS_FOLDER / name, number)


def is_place(place: str) -> bool:
    """Return whether a text has the form of a place."""
    folder, _, name = place.partition("/")
    if folder == "..":
        runs, _, rest = name.partition("/")
        run, _, last = rest.partition("/")
        return runs == _OLD_RUNS and bool(_OLD_RUN.fullmatch(run)) and last == _OLD_LOG
    return place == FIRST_PLACE or (folder == CHAINS_FOLDER and bool(_NUMBER.fullmatch(name)))


def _later_chains(log: Path) -> Iterator[ChainFolder]:
    for name in _folders_in(log / CHAINS_FOLDER):
        if _NUMBER.fullmatch(name) and int(name) > 1:
            yield numbered_chain(log, int(name))


def _old_chains(log: Path) -> Iterator[ChainFolder]:
    # The absolute path, since `..` of a relative one names a folder that has no parent in the text.
    runs = log.absolute().parent / _OLD_RUNS
    for name in _folders_in(runs):
        if _OLD_RUN.fullmatch(name) and (runs / name / _OLD_LOG).is_dir():
            yield ChainFolder(f"../{_OLD_RUNS}/{name}/{_OLD_LOG}", runs / name / _OLD_LOG)


def _folders_in(folder: Path) -> list[str]:
    """Return the names of the folders in a folder, sorted; links are left out, since they lead elsewhere."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return []
