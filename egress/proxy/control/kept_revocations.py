"""Revocations that outlast the process: hosts and secrets by name, in a private file of the state folder.

A proxy reads the file before it serves anything. A file that cannot be read stops the start: it is not known
then what it revoked, and an empty list would give all of it back.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import msgspec

from egress.errors import UnreadableError, reason_of
from egress.private_file import FILE_MODE, FOLDER_MODE, read_private, write_atomically
from egress.proxy.control.revocation import KEPT_KINDS, RevocationKind, canonical_name
from egress.rules.language.hosts import HostError

FILE_NAME: Final = "revocations.json"
_LOCK_NAME: Final = "revocations.lock"
MAX_FILE_BYTES: Final = 1024 * 1024
_CURE: Final = (
    "put a copy of it back; without the file, everything that was revoked with --keep is given back"
)


class RevocationList(msgspec.Struct, forbid_unknown_fields=True):
    """The content of the file."""

    version: Annotated[int, msgspec.Meta(ge=1, le=1)]
    host: list[Annotated[str, msgspec.Meta(min_length=1, max_length=512)]]
    secret: list[Annotated[str, msgspec.Meta(min_length=1, max_length=512)]]


class KeptRevocations:
    """The file, read and changed. Several proxies may have the same state folder."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / FILE_NAME

    def read(self) -> dict[RevocationKind, list[str]]:
        """Return the names by kind; none where there is no file. Raises `UnreadableError`."""
        try:
            data = read_private(self._path, MAX_FILE_BYTES + 1, _CURE)
        except FileNotFoundError:
            return {kind: [] for kind in KEPT_KINDS}
        try:
            found = msgspec.json.decode(data, type=RevocationList)
            names = {kind: list(getattr(found, kind)) for kind in KEPT_KINDS}
            is_canonical = all(
                canonical_name(name, kind) == name for kind, listed in names.items() for name in listed
            )
        except (msgspec.MsgspecError, UnicodeDecodeError, HostError):
            is_canonical, names = False, {}
        # A name in another spelling would revoke nothing, and nobody would notice.
        if not is_canonical or len(data) > MAX_FILE_BYTES:
            raise UnreadableError(f"{self._path} is not a list of revocations", _CURE)
        return names

    def add(self, kind: RevocationKind, name: str) -> None:
        """Keep a revocation. Raises `UnreadableError`."""
        with self._changed() as names:
            if name not in names[kind]:
                names[kind].append(name)

    def remove(self, kind: RevocationKind, name: str) -> None:
        """Keep a revocation no longer. Raises `UnreadableError`."""
        if name not in self.read()[kind]:
            return
        with self._changed() as names:
            names[kind] = [other for other in names[kind] if other != name]

    @contextmanager
    def _changed(self) -> Iterator[dict[RevocationKind, list[str]]]:
        """Hand out the names, and write them back as they are then."""
        try:
            self._path.parent.mkdir(mode=FOLDER_MODE, parents=True, exist_ok=True)
            with self._locked():
                # Read under the lock: another proxy may have kept a revocation of its own meanwhile.
                names = self.read()
                yield names
                ordered = {kind: sorted(listed) for kind, listed in names.items()}
                content = msgspec.json.encode({"version": 1, **ordered})
                write_atomically(self._path, content + b"\n", replace=True)
        except OSError as error:
            raise UnreadableError(
                f"{self._path} cannot be written: {reason_of(error)}", "check its folder and its disk"
            ) from None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._path.with_name(_LOCK_NAME), flags, FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
