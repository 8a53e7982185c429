"""Snapshots on this machine: a private folder for each, below the state folder.

    snapshots/.lock                  held for a moment by whoever adds or removes one
    snapshots/NAME/manifest.json     what is known of it
    snapshots/NAME/workspace.tar     the workspace
    snapshots/NAME/image             the name of its image, if it has one

A snapshot is written into a folder with a hidden name, and renamed when it is complete: it is there as a
whole, or not at all. Its writer holds a lock on the hidden folder, so that the next writer finds what a
killed process has left.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final, cast

import msgspec

from egress.errors import EgressError, UnreadableError, reason_of
from egress.fleet.errors import (
    SnapshotDamagedError,
    SnapshotExistsError,
    SnapshotNotFoundError,
    SnapshotQuotaError,
)
from egress.fleet.lifetime import check_snapshot_name
from egress.fleet.protocol import Snapshot
from egress.fleet.snapshot_limits import DEFAULT_SNAPSHOT_LIMITS, QUOTA_VARIABLE, SnapshotLimits
from egress.logger import EventLogger
from egress.private_file import FILE_MODE, read_private, write_atomically
from egress.runtime.errors import SandboxError
from egress.unix.socket_folder import make_own_folder

_log = EventLogger(__name__)

SNAPSHOTS_FOLDER: Final = "snapshots"
_LOCK_NAME: Final = ".lock"
_PARTIAL_PREFIX: Final = ".partial-"
_MANIFEST_NAME: Final = "manifest.json"
_ARCHIVE_NAME: Final = "workspace.tar"
_IMAGE_NOTE_NAME: Final = "image"
"""The file with the name of the image of a snapshot, written before the image is made."""
_MAX_MANIFEST_BYTES: Final = 64 * 1024
_CHECK_INTERVAL_BYTES: Final = 16 * 1024 * 1024
"""Bytes between two looks at what other writers have written meanwhile."""
_READ_BYTES: Final = 1024 * 1024
_FOLDER_HINT: Final = "name another state folder"
_DELETE_HINT: Final = "delete it with `egress snapshot rm`"

EndImage = Callable[[str], None]
"""Removes the image of a snapshot by its name, which its store does not know how to do."""


class SnapshotStore:
    """The snapshots below one state folder. Any number of processes may use it."""

    def __init__(self, state: Path, limits: SnapshotLimits = DEFAULT_SNAPSHOT_LIMITS) -> None:
        """Take the state folder. Nothing is made before the first snapshot."""
        self.limits = limits
        self._folder = state / SNAPSHOTS_FOLDER

    def all(self) -> tuple[Snapshot, ...]:
        """The snapshots, by name. A damaged one is left out."""
        found = []
        for name in self._names():
            with suppress(SnapshotNotFoundError):
                try:
                    found.append(self.find(name))
                except SnapshotDamagedError as error:
                    _log.warning("snapshot.damaged", snapshot=name, cause=error.message)
        return tuple(found)

    def find(self, name: str) -> Snapshot:
        """A snapshot. Raises `SnapshotNotFoundError`, and `SnapshotDamagedError`."""
        check_snapshot_name(name)
        try:
            data = read_private(self._folder / name / _MANIFEST_NAME, _MAX_MANIFEST_BYTES, _DELETE_HINT)
            found = msgspec.json.decode(data, type=Snapshot)
        except FileNotFoundError:
            raise _missing_error(name) from None
        except (UnreadableError, msgspec.DecodeError):
            raise _damaged_error(name) from None
        if found.name != name or found.size < 0 or found.created.tzinfo is None:
            raise _damaged_error(name)
        return found

    @contextmanager
    def read(self, name: str) -> Iterator[tuple[Snapshot, BinaryIO]]:
        """A snapshot and its archive, which is as it was written."""
        found = self.find(name)
        try:
            number = os.open(self._folder / name / _ARCHIVE_NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            raise _damaged_error(name) from None
        with os.fdopen(number, "rb") as file:
            # Before its reader sees any of it, and of the open file: no other one can take its place.
            if _digest_of(file) != found.digest:
                raise _damaged_error(name)
            file.seek(0)
            yield found, file

    @contextmanager
    def write(self, name: str, end_image: EndImage) -> Iterator[PartialSnapshot]:
        """A place for a new snapshot; nothing is left of it unless `commit` was called.

        `end_image` removes the images of writers that were killed.

        Raises `SnapshotExistsError`, and `SnapshotQuotaError` if there is no room at all.
        """
        check_snapshot_name(name)
        with self._locked():
            self._refuse_taken(name)
            self._remove_stale(end_image)
            folder, lock = self._make_partial()
        try:
            with _create_archive(folder) as file:
                yield PartialSnapshot(name, folder, file, self)
        finally:
            os.close(lock)
            # After a commit the folder has its name, and this finds none.
            shutil.rmtree(folder, ignore_errors=True)

    def delete(self, name: str, end_image: EndImage) -> None:
        """Delete a snapshot. Raises `SnapshotNotFoundError`, and errors of `end_image`: it stays then."""
        check_snapshot_name(name)
        if not (self._folder / name).is_dir():
            raise _missing_error(name)
        # By the note and not by the manifest: a damaged snapshot takes its image along, too.
        _end_noted_image(self._folder / name, end_image)
        with self._locked():
            # Renamed first: what is half removed must not be found under its name.
            hidden = tempfile.mkdtemp(prefix=_PARTIAL_PREFIX, dir=self._folder)
            with suppress(FileNotFoundError):
                (self._folder / name).rename(hidden)
        shutil.rmtree(hidden, ignore_errors=True)

    def retire(self, kept: str, end_image: EndImage) -> None:
        """Delete the snapshots that are too old, and the oldest of too many; never `kept`."""
        limits, found = self.limits, sorted(self.all(), key=lambda each: each.created)
        if not found:
            return
        now = self._now()
        others = [each for each in found if each.name != kept]
        surplus = {each.name for each in others[: max(0, len(found) - limits.max_count)]}
        for each in others:
            is_old = limits.max_age is not None and now - each.created.timestamp() > limits.max_age
            if not is_old and each.name not in surplus:
                continue
            try:
                self.delete(each.name, end_image)
                _log.info("snapshot.retired", snapshot=each.name, is_old=is_old)
            except EgressError as error:
                # One whose image is in use stays until the next time.
                _log.warning("snapshot.not_retired", snapshot=each.name, cause=error.message)

    def left(self) -> int:
        """The bytes that are left of the quota; what is being written counts."""
        used = 0
        for folder in self._folder.iterdir():
            with suppress(OSError):
                used += (folder / _ARCHIVE_NAME).stat().st_size
        # The archive was counted already; the rest is that of the image.
        for each in self.all():
            if each.saved_image:
                with suppress(OSError):
                    used += each.size - (self._folder / each.name / _ARCHIVE_NAME).stat().st_size
        return self.limits.max_bytes - used

    def put(self, folder: Path, name: str, more_bytes: int) -> None:
        """Give a written folder its name. Raises `SnapshotQuotaError` if `more_bytes` do not fit."""
        with self._locked():
            self._refuse_taken(name)
            # Once more, and under the lock: others have written as well.
            if self.left() < more_bytes:
                raise self.quota_error()
            folder.rename(self._folder / name)

    def quota_error(self) -> SnapshotQuotaError:
        """The error for a snapshot that does not fit."""
        return SnapshotQuotaError(
            f"all snapshots together may take {self.limits.max_bytes} bytes: this one does not fit",
            f"delete some with `egress snapshot rm`, or raise {QUOTA_VARIABLE}",
        )

    def _now(self) -> float:
        """The time of the file system, which the times of snapshots come from."""
        with self._locked() as lock:
            os.utime(lock)
            return os.fstat(lock).st_mtime

    def _names(self) -> list[str]:
        try:
            return sorted(each.name for each in self._folder.iterdir() if not each.name.startswith("."))
        except FileNotFoundError:
            return []

    def _refuse_taken(self, name: str) -> None:
        if (self._folder / name).exists():
            raise SnapshotExistsError(
                f"a snapshot {name} exists already", "delete it first, or choose another name"
            )

    def _make_partial(self) -> tuple[Path, int]:
        folder = Path(tempfile.mkdtemp(prefix=_PARTIAL_PREFIX, dir=self._folder))
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        fcntl.flock(lock, fcntl.LOCK_EX)
        return folder, lock

    def _remove_stale(self, end_image: EndImage) -> None:
        """Remove what killed writers have left: nobody holds its lock."""
        for folder in self._folder.glob(f"{_PARTIAL_PREFIX}*"):
            # A folder whose image cannot be removed stays, and with it the name of the image.
            with suppress(OSError, SandboxError):
                lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _end_noted_image(folder, end_image)
                    shutil.rmtree(folder, ignore_errors=True)
                finally:
                    os.close(lock)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Hold the lock of the folder, which is made where it is missing. Raises `UnreadableError`."""
        try:
            make_own_folder(self._folder, _FOLDER_HINT)
            lock = os.open(
                self._folder / _LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE
            )
        except OSError as error:
            raise UnreadableError(
                f"{self._folder} cannot be written: {reason_of(error)}", _FOLDER_HINT
            ) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield lock
        finally:
            os.close(lock)


class PartialSnapshot:
    """A snapshot that is being written: a file within the quota, and its digest."""

    def __init__(self, name: str, folder: Path, file: BinaryIO, store: SnapshotStore) -> None:
        """Begin it. Raises `SnapshotQuotaError` if nothing is left of the quota."""
        self._name = name
        self._folder = folder
        self._file = file
        self._store = store
        self._digest = hashlib.sha256()
        self._unseen = 0
        self.left = 0
        """The bytes that this snapshot may still take."""
        self._look()

    def _look(self) -> None:
        self._file.flush()
        self.left, self._unseen = self._store.left(), 0
        if self.left <= 0:
            raise self._store.quota_error()

    # The part of a file that a writer of archives needs.

    def write(self, data: bytes) -> int:
        """Write a piece of the archive. Raises `SnapshotQuotaError` beyond the quota."""
        self._unseen += len(data)
        if self._unseen >= _CHECK_INTERVAL_BYTES:
            # Others write into the same quota meanwhile.
            self._look()
        if len(data) > self.left:
            raise self._store.quota_error()
        self.left -= len(data)
        self._digest.update(data)
        return self._file.write(data)

    def fileno(self) -> int:
        return self._file.fileno()

    @property
    def archive(self) -> BinaryIO:
        """This, as a file to write an archive to."""
        return cast("BinaryIO", self)

    def note_image(self, image: str) -> None:
        """Note the name of an image that is going to be made, so that it is removed after a crash."""
        write_atomically(self._folder / _IMAGE_NOTE_NAME, image.encode(), replace=False)

    def commit(self, found: Snapshot, image_bytes: int = 0) -> Snapshot:
        """Complete the snapshot; time, size and digest are filled in. Raises `SnapshotQuotaError`."""
        self._file.flush()
        os.fsync(self._file.fileno())
        status = os.fstat(self._file.fileno())
        whole = replace(
            found,
            created=datetime.fromtimestamp(status.st_mtime, UTC),
            size=status.st_size + image_bytes,
            digest=self._digest.hexdigest(),
        )
        # The archive counts already, so only the image has to fit.
        write_atomically(self._folder / _MANIFEST_NAME, msgspec.json.encode(whole), replace=False)
        self._store.put(self._folder, self._name, image_bytes)
        return whole


def _create_archive(folder: Path) -> BinaryIO:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.fdopen(os.open(folder / _ARCHIVE_NAME, flags, FILE_MODE), "wb")


def _end_noted_image(folder: Path, end_image: EndImage) -> None:
    try:
        data = read_private(folder / _IMAGE_NOTE_NAME, _MAX_MANIFEST_BYTES, _DELETE_HINT)
    except FileNotFoundError:
        return
    end_image(data.decode("ascii", "replace"))


def _digest_of(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while piece := file.read(_READ_BYTES):
        digest.update(piece)
    return digest.hexdigest()


def _missing_error(name: str) -> SnapshotNotFoundError:
    return SnapshotNotFoundError(f"no snapshot is named {name}", "list them with `egress snapshot list`")


def _damaged_error(name: str) -> SnapshotDamagedError:
    return SnapshotDamagedError(f"the snapshot {name} is damaged", _DELETE_HINT)
