"""Records of sandboxes that outlive their runtime: a private file for each, in the folder of its cell.

Labels at the engine prove nothing: whoever reaches the engine can set them. So the next runtime takes over a
container only if its id stands in a record. No sandbox sees the folder, and only its user may enter it.

A file that is no record of this version is told, and its sandbox is not taken over.
"""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Network
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from egress.errors import UnreadableError, reason_of
from egress.private_file import read_private, write_atomically
from egress.runtime.docker import names
from egress.runtime.errors import EngineUnavailableError
from egress.runtime.owner_lock import owner_of
from egress.runtime.proxy_client import Admission, Bar
from egress.runtime.record_codec import decode_record, encode_record
from egress.runtime.spec import Spec

MAX_RECORD_BYTES: Final = 4 * 1024 * 1024
_FILE_NAME: Final = "kept.json"
_CURE: Final = "remove what is left with `egress down`"

EngineId = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}\Z")]
"""An id of a container or a network: the engine chooses it, and never gives it twice."""
Port = Annotated[int, msgspec.Meta(ge=1, le=65535)]


class KeptRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The facts from which a sandbox is taken over."""

    version: Literal[1] = 1
    cell: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{8}\Z")]
    container: EngineId
    image: Annotated[str, msgspec.Meta(max_length=200)]
    """The id of its image."""
    network: EngineId
    subnet: IPv4Network
    spec: Spec
    """With the user of its container, resolved mounts and all variables."""
    admission: Admission
    """The first one, with the canaries that are planted."""
    files: tuple[str, ...]
    """The files of every sandbox, by path inside: their mounts follow this order."""
    ports: tuple[Port, ...]
    """The ports that lead to the proxy."""
    note: Annotated[str, msgspec.Meta(max_length=MAX_RECORD_BYTES)]
    """A text of the caller."""
    deadline: float | None
    """When the sandbox is removed, in seconds of the clock; None for never."""
    bar: Bar

    def is_over(self, now: float) -> bool:
        """Return whether its time has passed."""
        return self.deadline is not None and now >= self.deadline


class KeptRecords:
    """The records of one runtime's folder."""

    def __init__(self, home: Path, lease: Path) -> None:
        """`lease` is the lease that the sandboxes of these records name."""
        self._home = home
        self._lease = str(lease)

    def write(self, record: KeptRecord) -> None:
        """Write a record in one step. Raises `EngineUnavailableError`."""
        try:
            write_atomically(self._path(record.cell), encode_record(record), replace=True)
        except OSError as error:
            raise EngineUnavailableError(
                f"cannot record a sandbox in {self._home}: {reason_of(error)}", "free space there"
            ) from None

    def remove(self, cell: str) -> None:
        """Remove a record: the sandbox is not taken over any more."""
        self._path(cell).unlink(missing_ok=True)

    def read(self, cell: str) -> KeptRecord:
        """Return the record of a cell. Raises `UnreadableError` for one that is none."""
        path = self._path(cell)
        try:
            data = read_private(path, MAX_RECORD_BYTES + 1, _CURE)
            record = decode_record(data, KeptRecord, MAX_RECORD_BYTES)
        except FileNotFoundError:
            raise UnreadableError(f"{path} is missing", _CURE) from None
        except ValueError as error:
            raise UnreadableError(f"{path} is not a record of a sandbox ({error})", _CURE) from None
        # A record that was copied from another cell would give this one's folder to that sandbox.
        if record.cell != cell:
            raise UnreadableError(f"{path} is the record of another sandbox", _CURE)
        return record

    def cells(self) -> Iterator[str]:
        """Yield the cells that have a record, readable or not."""
        for folder in sorted(self._home.iterdir()) if self._home.is_dir() else ():
            has_record = (folder / _FILE_NAME).exists() and owner_of(folder) == self._lease
            # The name of a cell and nothing else: it becomes part of paths and names.
            if has_record and names.cell_of(names.network(folder.name)) == folder.name:
                yield folder.name

    def _path(self, cell: str) -> Path:
        return self._home / cell / _FILE_NAME
