"""The logs of several replicas in one folder, which verifies and reads as one log.

Each replica has a hundred numbers for its chains, in the order in which replicas came: the chain 2 of the
second replica is the chain 102 here. All replicas have one key, so the chains are taken as they are. Their
registers are joined into one, since a chain of any of them that is deleted has to be found.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from egress.audit import chain_register, files
from egress.audit.chain import Keys
from egress.audit.chain_folders import ChainFolder, chain_folders, numbered_chain
from egress.audit.chain_register import REGISTER, DamagedRegisterError, Entries, RegisteredLine
from egress.audit.files import replace_file
from egress.audit.log_copy import LogPart
from egress.errors import ContentError

CHAINS_PER_REPLICA: Final = 100
MAX_REPLICAS: Final = 99
REPLICAS: Final = "replicas.json"
_REGISTERS_FOLDER: Final = "registers"
_FOLDER_MODE: Final = 0o700
_FILE_MODE: Final = 0o600
_CHAIN = re.compile(r"chains/(?P<number>[0-9]{4})/(?P<file>.+)")


class LogCollection:
    """The copies of replicas' logs in a folder."""

    def __init__(self, folder: Path) -> None:
        """Open a collection, or begin one. Raises `ContentError` for a folder that holds something else."""
        self.folder = folder
        folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
        self._replicas = self._read_replicas()

    @property
    def replicas(self) -> tuple[str, ...]:
        return tuple(self._replicas)

    def known(self, replica: str) -> dict[str, int]:
        """Return the size of each file of lines of a replica that is here, by its name there."""
        first = self._first_chain(replica)
        found: dict[str, int] = {}
        for number in range(first, first + CHAINS_PER_REPLICA):
            chain, there = numbered_chain(self.folder, number), numbered_chain(Path(), number - first + 1)
            for file in files.numbers(chain.path) if chain.path.is_dir() else ():
                found[there.file(files.name(file))] = files.size(chain.path, file)
        return found

    def take(self, replica: str, parts: Iterable[LogPart]) -> int:
        """Take parts of a replica's log; return how many bytes of lines came.

        Raises `ContentError` for parts that do not go on where the copy ends, and `OSError`.
        """
        first, taken = self._first_chain(replica), 0
        for part in parts:
            place = self._place(replica, first, part.name)
            place.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            if part.is_lines:
                _append(place, part, replica)
                taken += len(part.data)
            else:
                replace_file(place, part.data)
        return taken

    def finish(self, key: bytes) -> None:
        """Join the registers, and delete what the replicas have pruned. Raises `ContentError`."""
        keys = Keys.of(key)
        entries: Entries = {}
        for ordinal, replica in enumerate(self._replicas):
            entries |= dict(self._entries(ordinal, replica, keys))
        with chain_register.locked(self.folder):
            chain_register.write(self.folder, keys.register, entries)
        for chain in chain_folders(self.folder):
            _prune(chain, keys)

    # Internals

    def _read_replicas(self) -> list[str]:
        try:
            found = json.loads((self.folder / REPLICAS).read_bytes())
            if isinstance(found, list) and all(isinstance(name, str) for name in found):
                return found
        except FileNotFoundError:
            # A log that a proxy writes must not become a mixture of its lines and of copies.
            if not any(self.folder.iterdir()):
                return []
        except ValueError:
            pass
        raise ContentError(f"{self.folder} is no collection of logs", "name an empty folder, or a new one")

    def _first_chain(self, replica: str) -> int:
        """Return the number of a replica's first chain here; a new replica gets the next hundred."""
        if replica not in self._replicas:
            if len(self._replicas) >= MAX_REPLICAS:
                raise ContentError(f"more than {MAX_REPLICAS} replicas", "collect them in two folders")
            self._replicas.append(replica)
            replace_file(self.folder / REPLICAS, json.dumps(self._replicas).encode("ascii"))
        return self._replicas.index(replica) * CHAINS_PER_REPLICA + 1

    def _place(self, replica: str, first: int, name: str) -> Path:
        if name == REGISTER:
            return self._register_folder(self._replicas.index(replica)) / REGISTER
        found = _CHAIN.fullmatch(name)
        number, file = (int(found["number"]), found["file"]) if found else (1, name)
        if not 0 < number < CHAINS_PER_REPLICA:
            raise ContentError(
                f"the log of {replica} has the chain {number}; the highest here is {CHAINS_PER_REPLICA - 1}",
                "read the log of this replica by itself",
            )
        return numbered_chain(self.folder, first + number - 1).path / file

    def _register_folder(self, ordinal: int) -> Path:
        return self.folder / _REGISTERS_FOLDER / f"{ordinal:02d}"

    def _entries(self, ordinal: int, replica: str, keys: Keys) -> Iterator[tuple[str, RegisteredLine]]:
        try:
            found = chain_register.read(self._register_folder(ordinal), keys.register) or {}
        except DamagedRegisterError as error:
            raise ContentError(
                f"the register of {replica} cannot be used: {error}",
                "verify the log of that replica, and give the key that all replicas have",
            ) from None
        for place, line in found.items():
            number = int(place.rpartition("/")[2]) if place.startswith("chains/") else 1
            yield numbered_chain(self.folder, ordinal * CHAINS_PER_REPLICA + number).place, line


def _append(place: Path, part: LogPart, replica: str) -> None:
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, _FILE_MODE)
    with os.fdopen(descriptor, "wb") as file:
        if file.seek(0, os.SEEK_END) != part.offset:
            raise ContentError(
                f"the log of {replica} is not the one that was copied before: {part.name} has another length",
                "collect it into another folder, and compare both",
            )
        file.write(part.data)


def _prune(chain: ChainFolder, keys: Keys) -> None:
    """Delete the files that the replica has deleted: its anchor says where the chain begins."""
    try:
        anchor = files.read_anchor(chain.path, keys.anchor) if chain.path.is_dir() else None
    except ValueError:
        # The verification tells of it, and nothing is deleted by what cannot be trusted.
        return
    for number in files.numbers(chain.path) if anchor else ():
        if anchor and number < anchor.file:
            (chain.path / files.name(number)).unlink()
