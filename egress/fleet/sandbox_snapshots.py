"""Snapshots of a fleet: the files of a sandbox are kept under a name, and other sandboxes begin with them.

A snapshot of kind `workspace` is a tar archive of the workspace. One of kind `image` has an image with the
rest of the file system besides. Archives are written by the tar of the sandbox, so they are hostile: they are
filtered when they are written, and again when they are unpacked, in a sandbox and as its user.

Canary files are never kept, and never written over: a canary of one sandbox means nothing in another one.
"""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import PurePosixPath
from posixpath import normpath
from typing import BinaryIO, Final, cast

from egress.fleet.errors import SnapshotNotFoundError
from egress.fleet.lifetime import SandboxLifetime
from egress.fleet.member import FleetMember
from egress.fleet.protocol import Snapshot, SnapshotKind
from egress.fleet.snapshot_store import PartialSnapshot, SnapshotStore
from egress.runtime.disk_space import SpaceCheckedFile
from egress.runtime.errors import (
    ArchiveTooLargeError,
    SandboxError,
    SandboxStateError,
    SpecError,
    UnsupportedError,
)
from egress.runtime.protocol import (
    SAVED_IMAGE_REPOSITORY,
    ArchivingRuntime,
    ImageSavingRuntime,
    Runtime,
)
from egress.runtime.spec import Command, Info, Spec
from egress.runtime.stages import note_stage
from egress.runtime.tar_filter import filter_archive

_HOME_TIMEOUT: Final = 60.0
_NOT_YET: Final = datetime.fromtimestamp(0, UTC)
"""The time of a snapshot that is not complete."""

Make = Callable[[Spec], Info]
"""Makes a sandbox."""


class FleetSnapshots:
    """Takes snapshots of the sandboxes of a fleet, and lets others begin with them."""

    def __init__(self, runtime: Runtime, store: SnapshotStore | None) -> None:
        """Without a store every call raises `UnsupportedError`."""
        self._runtime = runtime
        self._kept = store

    def take(self, name: str, member: FleetMember | None, snapshot: str, kind: SnapshotKind) -> Snapshot:
        """Keep the files of a running sandbox."""
        store = self._store()
        if member is None:
            # Raises for a sandbox that no one knows.
            self._runtime.info(name)
            raise SandboxStateError(
                f"the sandbox {name} was not created by this fleet", "save its files instead"
            )
        archiving = self._archiving()
        if kind == "image":
            self._saving()
        # What is too old makes room first. What is too many goes last, when the new one is complete.
        store.retire(snapshot, self._end_image)
        with store.write(snapshot, self._end_image) as partial:
            path = member.spec.workdir
            omit = self._canaries_below(archiving, name, path)
            note_stage("packing the workspace")
            try:
                archiving.archive(name, path, partial.archive, partial.left, omit)
                done = self._complete(partial, _begun(member, name, snapshot, kind))
            except ArchiveTooLargeError:
                raise store.quota_error() from None
        store.retire(snapshot, self._end_image)
        return done

    def create(self, spec: Spec, terms: SandboxLifetime, make: Make) -> Info:
        """Make a sandbox that begins with the snapshot of its terms. A failure leaves nothing behind."""
        if not terms.snapshot:
            return make(spec)
        archiving = self._archiving()
        with self._store().read(terms.snapshot) as (snapshot, archive):
            # Every check comes before the sandbox is made.
            make(_based_on(spec, terms, snapshot))
            try:
                self._runtime.start(spec.name)
                note_stage("unpacking the snapshot")
                self._unpack(archiving, spec, archive)
                return self._runtime.info(spec.name)
            except BaseException:
                self._runtime.remove(spec.name)
                raise

    def all(self) -> tuple[Snapshot, ...]:
        return self._store().all()

    def delete(self, snapshot: str) -> None:
        self._store().delete(snapshot, self._end_image)

    # Internals

    def _complete(self, partial: PartialSnapshot, snapshot: Snapshot) -> Snapshot:
        if snapshot.kind == "workspace":
            return partial.commit(snapshot)
        saving = self._saving()
        # Drawn at random: other users of the engine have snapshots of the same name.
        image = f"{SAVED_IMAGE_REPOSITORY}:{snapshot.name}-{secrets.token_hex(4)}"
        partial.note_image(image)
        note_stage("saving the image")
        saved = saving.save_image(snapshot.sandbox, image, partial.left)
        try:
            whole = replace(snapshot, saved_image=image, user=saved.user, group=saved.group)
            return partial.commit(whole, saved.size)
        except BaseException:
            with suppress(SandboxError):
                saving.remove_saved_image(image)
            raise

    def _unpack(self, archiving: ArchivingRuntime, spec: Spec, archive: BinaryIO) -> None:
        omit = self._canaries_below(archiving, spec.name, spec.workdir)
        if not omit:
            self._runtime.put(spec.name, spec.workdir, archive)
            return
        with tempfile.TemporaryFile() as file:
            filter_archive(archive, cast("BinaryIO", SpaceCheckedFile(file)), omit=omit)
            file.seek(0)
            self._runtime.put(spec.name, spec.workdir, file)

    def _canaries_below(self, archiving: ArchivingRuntime, name: str, folder: str) -> frozenset[str]:
        """The canary files of a sandbox in a folder, as an archive of that folder names them."""
        planted = archiving.planted(name)
        if not planted:
            return frozenset()
        home = ""
        if any(path.startswith("~/") for path in planted):
            # The sandbox says what it likes. It can only withhold files of its own by that.
            words = ("/bin/sh", "-c", 'printf %s "$HOME"')
            home = self._runtime.exec(name, Command(argv=words, cwd="/", timeout=_HOME_TIMEOUT)).stdout
        above = normpath(folder) + "/"
        paths = (normpath(f"{home}/{path[2:]}" if path.startswith("~/") else path) for path in planted)
        return frozenset(path.removeprefix(above) for path in paths if path.startswith(above))

    def _end_image(self, image: str) -> None:
        self._saving().remove_saved_image(image)

    def _store(self) -> SnapshotStore:
        if self._kept is None:
            raise UnsupportedError("this fleet keeps no snapshots", "open it with a state folder")
        return self._kept

    def _archiving(self) -> ArchivingRuntime:
        if isinstance(self._runtime, ArchivingRuntime):
            return self._runtime
        raise UnsupportedError("this runtime keeps no snapshots", "save the workspace instead")

    def _saving(self) -> ImageSavingRuntime:
        if isinstance(self._runtime, ImageSavingRuntime):
            return self._runtime
        raise UnsupportedError(
            "only containers have a file system that is kept as an image",
            "use kind=workspace, or the docker runtime",
        )


def _begun(member: FleetMember, name: str, snapshot: str, kind: SnapshotKind) -> Snapshot:
    return Snapshot(
        name=snapshot,
        kind=kind,
        sandbox=name,
        image=member.spec.image,
        created=_NOT_YET,
        size=0,
        digest="",
        owner=member.terms.owner,
    )


def _based_on(spec: Spec, terms: SandboxLifetime, snapshot: Snapshot) -> Spec:
    """The spec of a sandbox that begins with a snapshot. Raises `SpecError` for one that cannot."""
    if snapshot.owner != terms.owner:
        raise SnapshotNotFoundError(
            f"the snapshot {snapshot.name} belongs to another owner", "use one of your own"
        )
    if any(PurePosixPath(spec.workdir).is_relative_to(normpath(mount.target)) for mount in spec.mounts):
        raise SpecError(
            "snapshot and mounts name the workspace: the snapshot would be written into your folder",
            "mount the folder elsewhere, or omit one of the two",
        )
    if not snapshot.saved_image:
        return spec
    if spec.image != snapshot.saved_image:
        raise SpecError(
            f"image is another one than that of the snapshot {snapshot.name}",
            "omit image: this snapshot brings its own",
        )
    # The files of the image belong to these ids.
    return replace(spec, user=snapshot.user, group=snapshot.group)
