"""A sandbox begins with the files of another one: within quota, without canaries, and as a whole."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from egress.fleet import Fleet, SandboxLifetime
from egress.fleet.errors import (
    SandboxDiffersError,
    SnapshotDamagedError,
    SnapshotExistsError,
    SnapshotNotFoundError,
    SnapshotQuotaError,
)
from egress.fleet.snapshot_limits import SnapshotLimits
from egress.fleet.snapshot_store import SnapshotStore
from egress.runtime import disk_space
from egress.runtime.errors import (
    ArchiveTooLargeError,
    EngineError,
    SandboxNotFoundError,
    SandboxStateError,
    SpecError,
    UnsupportedError,
)
from egress.runtime.protocol import SavedImage
from egress.runtime.spec import Command, Mount, Spec
from tests.fleet.memory_fleet import MemoryFleet, served
from tests.unit.sandbox.local_runtime import LocalRuntime


def spec(name: str, **values: object) -> Spec:
    return Spec(name=name, **{"image": "any", **values})  # type: ignore[arg-type]


class ImageRuntime(LocalRuntime):
    """Processes of this machine whose image is a name that is remembered."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.images: list[str] = []
        self.size = 100

    def save_image(self, name: str, image: str, max_bytes: int) -> SavedImage:
        self.info(name)
        if self.size > max_bytes:
            raise ArchiveTooLargeError("it has written too much")
        self.images.append(image)
        return SavedImage(self.size, 4711, 4712)

    def remove_saved_image(self, image: str) -> None:
        self.images.remove(image)


@pytest.fixture
def runtime(tmp_path: Path) -> ImageRuntime:
    return ImageRuntime(tmp_path / "boxes")


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore(tmp_path / "state", SnapshotLimits(max_bytes=1_000_000, max_count=2))


@pytest.fixture
def fleet(runtime: ImageRuntime, store: SnapshotStore) -> Iterator[Fleet]:
    fleet = Fleet(runtime, snapshots=store, tick=None)
    fleet.create(spec("one"), SandboxLifetime(owner="me"))
    fleet.start("one")
    run(fleet, "one", "mkdir below; echo kept > below/file; ln -s below/file link; chmod 755 below/file")
    yield fleet
    fleet.close()


def run(fleet: Fleet, name: str, line: str) -> str:
    return fleet.exec(name, Command(argv=("/bin/sh", "-c", line))).check().stdout


def begin(fleet: Fleet, name: str, snapshot: str, **values: object) -> None:
    fleet.create(spec(name, **values), SandboxLifetime(owner="me", snapshot=snapshot))


def test_another_one_begins_with_its_files(fleet: Fleet) -> None:
    done = fleet.snapshot("one", "first")
    assert (done.name, done.kind, done.sandbox, done.image, done.owner) == (
        *("first", "workspace", "one", "any"),
        "me",
    )
    assert fleet.snapshots() == (done,)
    fleet.remove("one")
    begin(fleet, "two", "first")
    assert run(fleet, "two", "cat link; stat -c %a below/file; ls -A") == "kept\n755\nbelow\nlink\n"


def test_the_same_again_is_not_unpacked_again(fleet: Fleet) -> None:
    fleet.snapshot("one", "first")
    begin(fleet, "two", "first")
    run(fleet, "two", "echo mine > below/file")
    begin(fleet, "two", "first")
    assert run(fleet, "two", "cat below/file") == "mine\n"
    with pytest.raises(SandboxDiffersError, match="snapshot"):
        fleet.create(spec("two"), SandboxLifetime(owner="me"))


def test_one_that_sleeps_is_woken_for_it(fleet: Fleet) -> None:
    fleet.sleep("one")
    assert fleet.snapshot("one", "first").size > 0
    assert fleet.info("one").state == "running"


def test_a_name_is_given_once_and_free_after_its_end(fleet: Fleet) -> None:
    fleet.snapshot("one", "first")
    with pytest.raises(SnapshotExistsError):
        fleet.snapshot("one", "first")
    fleet.delete_snapshot("first")
    with pytest.raises(SnapshotNotFoundError):
        begin(fleet, "two", "first")
    with pytest.raises(SandboxNotFoundError):
        fleet.info("two")
    fleet.snapshot("one", "first")


def test_the_oldest_makes_room(fleet: Fleet) -> None:
    for name in ("first", "second", "third"):
        fleet.snapshot("one", name)
    assert [each.name for each in fleet.snapshots()] == ["second", "third"]


def test_one_that_grows_is_cut_off_and_leaves_nothing(
    fleet: Fleet, store: SnapshotStore, tmp_path: Path
) -> None:
    # A file without end: its tar would write until the disk is full.
    run(fleet, "one", "truncate -s 20G large")
    with pytest.raises(SnapshotQuotaError, match="1000000 bytes"):
        fleet.snapshot("one", "first")
    assert fleet.snapshots() == ()
    assert [each.name for each in (tmp_path / "state/snapshots").iterdir()] == [".lock"]
    assert store.left() == 1_000_000
    run(fleet, "one", "rm large")
    fleet.snapshot("one", "first")


def test_a_damaged_one_makes_no_sandbox(fleet: Fleet, tmp_path: Path) -> None:
    fleet.snapshot("one", "first")
    with (tmp_path / "state/snapshots/first/workspace.tar").open("r+b") as file:
        file.write(b"x")
    with pytest.raises(SnapshotDamagedError):
        begin(fleet, "two", "first")
    assert [each.name for each in fleet.list()] == ["one"]


def test_nothing_is_left_of_one_that_cannot_be_filled(
    fleet: Fleet, runtime: ImageRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(name: str, path: str, archive: BinaryIO) -> None:
        raise SandboxStateError("the archive was not completely unpacked")

    fleet.snapshot("one", "first")
    with monkeypatch.context() as patch:
        patch.setattr(runtime, "put", fail)
        with pytest.raises(SandboxStateError):
            begin(fleet, "two", "first")
    assert [each.name for each in runtime.list()] == ["one"]
    begin(fleet, "two", "first")


def test_a_copy_without_canaries_does_not_fill_the_disk(
    fleet: Fleet, runtime: ImageRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other programs share it, and a proxy that cannot write its log serves no request."""
    fleet.snapshot("one", "first")
    runtime.canaries = ("/workspace/key",)
    monkeypatch.setattr(disk_space, "_MIN_FREE_BYTES", 1 << 80)
    monkeypatch.setattr(disk_space, "_MIN_FREE_DIVISOR", 1)
    with pytest.raises(SandboxStateError, match="more disk space"):
        begin(fleet, "two", "first")
    assert [each.name for each in fleet.list()] == ["one"]


def test_canaries_are_neither_kept_nor_written_over(fleet: Fleet, runtime: ImageRuntime) -> None:
    run(
        fleet, "one", "mkdir .aws; echo of-one > .aws/credentials; echo of-one > key; echo user > .aws/config"
    )
    runtime.canaries = ("~/.aws/credentials", "/workspace/key", "/elsewhere/key")
    # Its home is the workspace, as far as this test goes.
    home = {"HOME": "/workspace"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", "/workspace")
        fleet.snapshot("one", "first")
        fleet.create(spec("two", env=home), SandboxLifetime(owner="me", snapshot="first"))
        assert run(fleet, "two", "ls .aws; ls key || true") == "config\n"
        # What was kept when no canary was there does not take the place of one that is.
        runtime.canaries = ()
        fleet.snapshot("one", "second")
        runtime.canaries = ("~/.aws/credentials", "/workspace/key")
        fleet.create(spec("three", env=home), SandboxLifetime(owner="me", snapshot="second"))
        assert run(fleet, "three", "ls .aws; ls key || true") == "config\n"


def test_another_owner_does_not_begin_with_it(fleet: Fleet) -> None:
    fleet.snapshot("one", "first")
    with pytest.raises(SnapshotNotFoundError, match="another owner"):
        fleet.create(spec("two"), SandboxLifetime(owner="somebody", snapshot="first"))


@pytest.mark.parametrize("target", ["/workspace", "/", "/workspace/"])
def test_a_mounted_workspace_is_not_written(fleet: Fleet, tmp_path: Path, target: str) -> None:
    fleet.snapshot("one", "first")
    with pytest.raises(SpecError, match="mounts"):
        begin(fleet, "two", "first", mounts=(Mount(source=tmp_path, target=target, writable=True),))


@pytest.mark.parametrize("name", ["../x", "", "A", ".hidden"])
def test_an_odd_name_is_refused(fleet: Fleet, name: str) -> None:
    with pytest.raises(SpecError):
        fleet.snapshot("one", name)
    with pytest.raises(SpecError):
        fleet.delete_snapshot(name)
    if name:
        with pytest.raises(SpecError):
            SandboxLifetime(snapshot=name)


class Hostile(ImageRuntime):
    """Sandboxes whose tar writes what it likes."""

    entry = tarfile.TarInfo("../outside")

    def archive(
        self, name: str, path: str, target: BinaryIO, max_bytes: int, omit: Collection[str] = ()
    ) -> None:
        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w") as tar:
            self.entry.size = 1
            tar.addfile(self.entry, io.BytesIO(b"x"))
        target.write(data.getvalue())


def test_an_archive_that_leads_out_is_not_unpacked(tmp_path: Path, store: SnapshotStore) -> None:
    fleet = Fleet(Hostile(tmp_path / "boxes"), snapshots=store, tick=None)
    fleet.create(spec("one"))
    fleet.start("one")
    fleet.snapshot("one", "first")
    with pytest.raises(Exception, match="leads out"):
        fleet.create(spec("two"), SandboxLifetime(snapshot="first"))
    assert not list(tmp_path.rglob("outside"))
    assert [each.name for each in fleet.list()] == ["one"]
    fleet.close()


# Images -----------------------------------------------------------------------------------------------


def test_an_image_comes_with_its_workspace_and_its_ids(fleet: Fleet, runtime: ImageRuntime) -> None:
    done = fleet.snapshot("one", "first", "image")
    assert [done.saved_image] == runtime.images
    assert (done.kind, done.user, done.group, done.size > 100) == ("image", 4711, 4712, True)
    with pytest.raises(SpecError, match="another one than that of the snapshot"):
        begin(fleet, "two", "first")
    begin(fleet, "two", "first", image=done.saved_image)
    made = runtime._box("two").spec
    assert (made.image, made.user, made.group) == (done.saved_image, 4711, 4712)
    assert run(fleet, "two", "cat link") == "kept\n"
    # The same again is the same, although its ids came with the snapshot.
    begin(fleet, "two", "first", image=done.saved_image)
    fleet.delete_snapshot("first")
    assert runtime.images == []


def test_an_image_beyond_the_quota_leaves_nothing(fleet: Fleet, runtime: ImageRuntime) -> None:
    runtime.size = 10**9
    with pytest.raises(SnapshotQuotaError):
        fleet.snapshot("one", "first", "image")
    assert (fleet.snapshots(), runtime.images) == ((), [])


def test_no_image_is_left_of_a_snapshot_that_failed(
    fleet: Fleet, runtime: ImageRuntime, store: SnapshotStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise EngineError("the disk is full")

    monkeypatch.setattr(store, "put", fail)
    with pytest.raises(EngineError):
        fleet.snapshot("one", "first", "image")
    assert (fleet.snapshots(), runtime.images) == ((), [])


def test_what_cannot_be_kept_is_said_before_anything_is_written(tmp_path: Path, store: SnapshotStore) -> None:
    for fleet, cause in (
        (Fleet(LocalRuntime(tmp_path / "a"), snapshots=store, tick=None), "only containers"),
        (Fleet(ImageRuntime(tmp_path / "b"), tick=None), "keeps no snapshots"),
    ):
        fleet.create(spec("one"))
        fleet.start("one")
        with pytest.raises(UnsupportedError, match=cause):
            fleet.snapshot("one", "first", "image")
        fleet.close()
    assert not (tmp_path / "state").exists()


def test_a_sandbox_that_the_fleet_did_not_make_is_not_kept(fleet: Fleet, runtime: ImageRuntime) -> None:
    runtime.create(spec("strange"))
    runtime.start("strange")
    with pytest.raises(SandboxStateError, match="not created by this fleet"):
        fleet.snapshot("strange", "first")
    with pytest.raises(SandboxNotFoundError):
        fleet.snapshot("nobody", "first")


def test_another_process_takes_and_uses_them(fleet: Fleet) -> None:
    with served(fleet) as remote:
        done = remote.snapshot("one", "first")
        assert (done,) == remote.snapshots() == fleet.snapshots()
        remote.create(spec("two"), SandboxLifetime(owner="me", snapshot="first"))
        assert run(fleet, "two", "cat link") == "kept\n"
        with pytest.raises(SnapshotExistsError):
            remote.snapshot("one", "first")
        remote.delete_snapshot("first")
        assert remote.snapshots() == ()


def test_a_runtime_in_memory_keeps_none(store: SnapshotStore) -> None:
    estate = MemoryFleet()
    fleet = Fleet(estate.runtime, snapshots=store, tick=None)
    fleet.create(spec("one"))
    fleet.start("one")
    with pytest.raises(UnsupportedError, match="this runtime keeps no snapshots"):
        fleet.snapshot("one", "first")
    estate.fleet.close()
