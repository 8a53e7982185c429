"""What the handle promises of snapshots, as cases that run against each kind of real sandbox."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from egress.fleet import Fleet
from egress.fleet.errors import SnapshotNotFoundError, SnapshotQuotaError
from egress.fleet.protocol import FleetInfo
from egress.fleet.snapshot_limits import SnapshotLimits
from egress.fleet.snapshot_store import SnapshotStore
from egress.runtime.protocol import Runtime
from egress.sandbox.handle import Sandbox
from tests.runtime.planting_cases import PlantingGround

MAX_BYTES = 20_000_000


class SnapshotScene:
    """A fleet that keeps snapshots, on the runtime of somebody else."""

    def __init__(self, runtime: Runtime, kind: str, image: str, state: Path) -> None:
        self.store = SnapshotStore(state, SnapshotLimits(max_bytes=MAX_BYTES))
        self.fleet = Fleet(runtime, about=FleetInfo(kind=kind, image=image), snapshots=self.store, tick=None)
        self.image = image

    @contextmanager
    def box(self, snapshot: str | None = None, size: str | None = None) -> Iterator[Sandbox]:
        with Sandbox.create(runtime=self.fleet, snapshot=snapshot, size=size) as box:
            yield box

    def close(self) -> None:
        for each in self.fleet.snapshots():
            self.fleet.delete_snapshot(each.name)


Case = Callable[[SnapshotScene], None]


def a_workspace_is_kept_and_comes_back(scene: SnapshotScene) -> None:
    with scene.box() as box:
        box.exec("mkdir -p a/b; echo kept > a/b/file; chmod 700 a/b/file; ln -s a/b/file link", check=True)
        # What leads out of the workspace, and what is no file, is not kept.
        box.exec("ln -s /etc/passwd out; mkfifo pipe; echo elsewhere > /tmp/elsewhere", check=True)
        done = box.snapshot("first")
        assert done.sandbox == box.name
        box.exec("echo later > a/b/file")
    with scene.box("first") as box:
        shown = box.exec("ls -A; cat link; stat -c %a a/b/file; ls /tmp", check=True).text
        assert shown == "a\nlink\nkept\n700\n"
        # They belong to the user of the new sandbox.
        box.exec("echo mine >> a/b/file && rm -r a", check=True)
    Sandbox.delete_snapshot("first", runtime=scene.fleet)
    with pytest.raises(SnapshotNotFoundError), scene.box("first"):
        pytest.fail("it began without its files")
    assert scene.fleet.list() == ()


def a_limited_disk_is_kept_and_limits_what_comes_back(scene: SnapshotScene) -> None:
    with scene.box(size="8m") as box:
        box.files.write("large", b"x" * 3_000_000)
        box.snapshot("first")
    with scene.box("first", size="8m") as box:
        assert box.files.stat("large").size == 3_000_000
    # It does not fit: the new sandbox goes, and no half of it stays.
    with pytest.raises(Exception, match="not completely unpacked"), scene.box("first", size="2m"):
        pytest.fail("it began with half of its files")
    assert scene.fleet.list() == ()


def one_that_grows_is_cut_off(scene: SnapshotScene) -> None:
    with scene.box() as box:
        box.exec("dd if=/dev/zero of=large bs=1 count=1 seek=8000000000 2>/dev/null", check=True)
        with pytest.raises(SnapshotQuotaError):
            box.snapshot("first")
        # Its tar was ended, and the sandbox goes on.
        assert box.exec("echo on").text == "on\n"
    assert scene.fleet.snapshots() == ()
    assert scene.store.left() == MAX_BYTES


def one_that_sleeps_is_woken_for_it(scene: SnapshotScene) -> None:
    with scene.box() as box:
        box.files.write("kept", "kept")
        box.sleep()
        box.snapshot("first")
        assert box.status() == "running"


def canaries_are_neither_kept_nor_written_over(scene: SnapshotScene, ground: PlantingGround) -> None:
    with scene.box() as box:
        box.files.write("deep/key", "a file of its own")
        box.files.write("deep/other", "other")
        box.snapshot("before")
    ground.plant("key: { like: aws, file: /workspace/deep/key }")
    with scene.box("before") as box:
        value = ground.value(box.name, "key")
        assert box.files.read_text("deep/key") == f"{value}\n"
        assert box.files.read_text("deep/other") == "other"
        box.snapshot("with")
    with scene.box("with") as box:
        # Its own, and not that of the other one.
        assert box.files.read_text("deep/key") == f"{ground.value(box.name, 'key')}\n"
        assert box.exec(["grep", "-r", value, "/workspace"]).exit_code == 1
    with scene.store.read("with") as (_, archive):
        data = archive.read()
        assert value.encode() not in data
        assert b"deep/other" in data


CASES: tuple[Case, ...] = (
    a_workspace_is_kept_and_comes_back,
    a_limited_disk_is_kept_and_limits_what_comes_back,
    one_that_grows_is_cut_off,
    one_that_sleeps_is_woken_for_it,
)
