"""Snapshots lie in private folders, whole or not at all, within their quota and their number."""

from __future__ import annotations

import hashlib
import json
import stat
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from egress.errors import UnreadableError
from egress.fleet import snapshot_store
from egress.fleet.errors import (
    SnapshotDamagedError,
    SnapshotExistsError,
    SnapshotNotFoundError,
    SnapshotQuotaError,
)
from egress.fleet.protocol import Snapshot
from egress.fleet.snapshot_limits import SnapshotLimits
from egress.fleet.snapshot_store import SnapshotStore
from egress.runtime.errors import EngineError, SpecError
from egress.runtime.spec import NAME_PATTERN

EPOCH = datetime.fromtimestamp(0, UTC)


def fact(name: str, **values: object) -> Snapshot:
    made = {"kind": "workspace", "sandbox": "one", "image": "any", "created": EPOCH, "size": 0, "digest": ""}
    return Snapshot(name=name, **{**made, **values})  # type: ignore[arg-type]


def written(store: SnapshotStore, name: str, data: bytes = b"data", image_bytes: int = 0) -> Snapshot:
    with store.write(name, no_image) as partial:
        partial.archive.write(data)
        saved = f"egress-snapshot:{name}" if image_bytes else ""
        if saved:
            partial.note_image(saved)
        return partial.commit(fact(name, saved_image=saved), image_bytes)


def no_image(image: str) -> None:
    pytest.fail(f"{image} is no image")


def _json(value: object) -> bytes:
    return json.dumps(value).encode()


@pytest.fixture
def store(tmp_path: Path) -> SnapshotStore:
    return SnapshotStore(tmp_path, SnapshotLimits(max_bytes=1000, max_count=3))


def left_over(folder: Path) -> list[str]:
    return sorted(each.name for each in (folder / "snapshots").iterdir() if each.name != ".lock")


def test_what_was_written_is_read_again(store: SnapshotStore, tmp_path: Path) -> None:
    assert store.all() == ()
    done = written(store, "first")
    assert (done.size, done.digest) == (4, hashlib.sha256(b"data").hexdigest())
    assert done.created > EPOCH
    assert store.all() == (store.find("first"),) == (done,)
    with store.read("first") as (found, archive):
        assert (found, archive.read()) == (done, b"data")
    assert left_over(tmp_path) == ["first"]


def test_only_its_user_reaches_it(store: SnapshotStore, tmp_path: Path) -> None:
    written(store, "first")
    top = tmp_path / "snapshots"
    modes = {each.name: stat.S_IMODE(each.lstat().st_mode) for each in (top, *top.rglob("*"))}
    files = {".lock": 0o600, "manifest.json": 0o600, "workspace.tar": 0o600}
    assert modes == {"snapshots": 0o700, "first": 0o700, **files}


def test_nothing_is_left_of_one_that_failed(store: SnapshotStore, tmp_path: Path) -> None:
    def fail() -> None:
        with store.write("first", no_image) as partial:
            partial.archive.write(b"half")
            raise EngineError("the sandbox ended")

    with pytest.raises(EngineError):
        fail()
    assert left_over(tmp_path) == []
    written(store, "first")


def test_a_name_is_given_once(store: SnapshotStore) -> None:
    written(store, "first")
    with pytest.raises(SnapshotExistsError), store.write("first", no_image):
        pytest.fail("it was begun")
    # Two that are written at once: the later one is refused when it is complete.
    with store.write("second", no_image) as late:
        written(store, "second", b"early")
        with pytest.raises(SnapshotExistsError):
            late.commit(fact("second"))
    with store.read("second") as (_, archive):
        assert archive.read() == b"early"


@settings(max_examples=25, deadline=None)
@given(st.text(max_size=70))
@pytest.mark.parametrize("call", ["find", "write", "read", "delete"])
def test_a_name_leads_nowhere_else(tmp_path_factory: pytest.TempPathFactory, call: str, name: str) -> None:
    folder = tmp_path_factory.mktemp("state")
    store = SnapshotStore(folder)
    calls: dict[str, Callable[[], object]] = {
        "find": lambda: store.find(name),
        "write": lambda: store.write(name, no_image).__enter__(),
        "read": lambda: store.read(name).__enter__(),
        "delete": lambda: store.delete(name, no_image),
    }
    if not NAME_PATTERN.fullmatch(name):
        with pytest.raises(SpecError):
            calls[call]()
        assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["..", ".", "a/b", "../a", ".lock", ".partial-1", "a\n", "A", "", "-a", "a\0"]
)
def test_an_odd_name_is_refused(store: SnapshotStore, name: str) -> None:
    for call in (store.find, lambda name: store.delete(name, no_image)):
        with pytest.raises(SpecError):
            call(name)


def test_one_that_is_not_there_is_missing(store: SnapshotStore) -> None:
    with pytest.raises(SnapshotNotFoundError):
        store.find("first")
    with pytest.raises(SnapshotNotFoundError):
        store.delete("first", no_image)


# Quota and retention ----------------------------------------------------------------------------------


def test_one_beyond_the_quota_is_cut_off_and_leaves_nothing(store: SnapshotStore, tmp_path: Path) -> None:
    written(store, "first", b"x" * 600)
    with store.write("second", no_image) as partial:
        assert partial.left == 400
        partial.archive.write(b"x" * 400)
        with pytest.raises(SnapshotQuotaError) as caught:
            partial.archive.write(b"x")
    assert "1000 bytes" in caught.value.message
    assert "EGRESS_SNAPSHOT_QUOTA" in caught.value.hint
    assert left_over(tmp_path) == ["first"]
    written(store, "second", b"x" * 400)
    with pytest.raises(SnapshotQuotaError), store.write("third", no_image):
        pytest.fail("it was begun without room")


def test_others_that_write_at_once_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_store, "_CHECK_INTERVAL_BYTES", 20_000)
    store = SnapshotStore(tmp_path, SnapshotLimits(max_bytes=100_000))
    with store.write("first", no_image) as one, store.write("second", no_image) as other:
        one.archive.write(b"x" * 20_000)
        other.archive.write(b"x" * 10_000)
        written(store, "third", b"x" * 60_000)
        with pytest.raises(SnapshotQuotaError):
            other.archive.write(b"x" * 15_000)
        one.commit(fact("first"))
    assert {each.name for each in store.all()} == {"first", "third"}


def test_what_others_completed_meanwhile_counts_at_the_end(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path, SnapshotLimits(max_bytes=100_000))
    with store.write("first", no_image) as one:
        written(store, "second", b"x" * 60_000)
        one.archive.write(b"x" * 60_000)
        with pytest.raises(SnapshotQuotaError):
            one.commit(fact("first"))
    assert left_over(tmp_path) == ["second"]


def test_an_image_counts(store: SnapshotStore) -> None:
    written(store, "first", b"x" * 100, image_bytes=500)
    assert store.left() == 400
    with pytest.raises(SnapshotQuotaError):
        written(store, "second", b"x" * 100, image_bytes=301)
    assert written(store, "second", b"x" * 100, image_bytes=300).size == 400
    assert store.left() == 0


def _aged(store: SnapshotStore, tmp_path: Path, name: str, seconds: float) -> None:
    """Let a snapshot be older than it is."""
    file = tmp_path / "snapshots" / name / "manifest.json"
    found = json.loads(file.read_bytes())
    created = datetime.fromisoformat(found["created"]).timestamp() - seconds
    found["created"] = datetime.fromtimestamp(created, UTC).isoformat()
    file.write_text(json.dumps(found))
    assert store.find(name).created.timestamp() == created


def test_the_oldest_make_room_and_the_newest_stays(store: SnapshotStore, tmp_path: Path) -> None:
    for number in range(3):
        written(store, f"s{number}")
        _aged(store, tmp_path, f"s{number}", 100 - number)
    store.retire("s2", no_image)
    assert len(store.all()) == 3
    written(store, "new")
    _aged(store, tmp_path, "new", 1000)
    store.retire("new", no_image)
    assert [each.name for each in store.all()] == ["new", "s1", "s2"]


def test_one_that_is_too_old_goes(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path, SnapshotLimits(max_age=3600))
    for name in ("old", "kept", "young"):
        written(store, name)
    _aged(store, tmp_path, "old", 3700)
    _aged(store, tmp_path, "kept", 3700)
    store.retire("kept", no_image)
    assert [each.name for each in store.all()] == ["kept", "young"]


def test_one_whose_image_is_in_use_stays(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path, SnapshotLimits(max_count=1))
    written(store, "first", image_bytes=1)
    _aged(store, tmp_path, "first", 10)
    written(store, "second")
    asked: list[str] = []

    def in_use(image: str) -> None:
        asked.append(image)
        raise EngineError("the engine did not remove an image: it is in use")

    store.retire("second", in_use)
    with pytest.raises(EngineError):
        store.delete("first", in_use)
    assert [each.name for each in store.all()] == ["first", "second"]
    store.delete("first", asked.append)
    assert asked == ["egress-snapshot:first"] * 3
    assert left_over(tmp_path) == ["second"]


# Damage and crashes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "workspace.tar").write_bytes(b"Data"),
        lambda folder: (folder / "workspace.tar").unlink(),
        lambda folder: (folder / "manifest.json").write_text("{}"),
        lambda folder: (folder / "manifest.json").write_text("[" * 10_000),
        lambda folder: (folder / "manifest.json").chmod(0o644),
        lambda folder: (folder / "manifest.json").write_text(
            (folder / "manifest.json").read_text().replace('"first"', '"other"')
        ),
    ],
    ids=["changed", "lost", "empty", "nested", "open to others", "of another one"],
)
def test_a_damaged_one_is_not_used_and_can_be_deleted(
    store: SnapshotStore, tmp_path: Path, damage: Callable[[Path], object]
) -> None:
    written(store, "first", image_bytes=1)
    written(store, "second")
    damage(tmp_path / "snapshots/first")
    with pytest.raises(SnapshotDamagedError), store.read("first"):
        pytest.fail("it was read")
    assert "second" in {each.name for each in store.all()}
    ended: list[str] = []
    store.delete("first", ended.append)
    assert (ended, left_over(tmp_path)) == (["egress-snapshot:first"], ["second"])


def test_an_archive_that_is_a_link_is_not_followed(store: SnapshotStore, tmp_path: Path) -> None:
    written(store, "first")
    file = tmp_path / "snapshots/first/workspace.tar"
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(SnapshotDamagedError), store.read("first"):
        pytest.fail("it was read")


def test_a_folder_of_somebody_else_is_refused(store: SnapshotStore, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "snapshots").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnreadableError), store.write("first", no_image):
        pytest.fail("it was begun")
    assert list((tmp_path / "elsewhere").iterdir()) == []


_WRITER = """
import os, sys
from pathlib import Path
from egress.fleet.snapshot_store import SnapshotStore
with SnapshotStore(Path(sys.argv[1])).write("first", print) as partial:
    partial.archive.write(b"half")
    partial.note_image("egress-snapshot:half")
    print("written", flush=True)
    sys.stdin.read()
"""


def test_what_a_killed_writer_leaves_goes_with_the_next_one(store: SnapshotStore, tmp_path: Path) -> None:
    words = [sys.executable, "-c", _WRITER, str(tmp_path)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"written\n"
        # As long as it lives it is left alone.
        written(store, "second")
        assert len(left_over(tmp_path)) == 2
        writer.kill()
    assert [each.name for each in store.all()] == ["second"]

    def in_use(image: str) -> None:
        raise EngineError(f"{image} is in use")

    # Its image may have been made: as long as that cannot be removed, its name is kept.
    with store.write("third", in_use):
        assert len(left_over(tmp_path)) == 3
    ended: list[str] = []
    with store.write("third", ended.append) as partial:
        partial.commit(fact("third"))
    assert (ended, left_over(tmp_path)) == (["egress-snapshot:half"], ["second", "third"])


def test_a_snapshot_that_is_deleted_is_read_to_its_end(store: SnapshotStore) -> None:
    written(store, "first")
    with store.read("first") as (_, archive):
        store.delete("first", no_image)
        assert archive.read() == b"data"


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=300) | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(_json))
def test_whatever_a_manifest_holds_it_is_a_snapshot_or_damaged(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    folder = tmp_path_factory.mktemp("state")
    store = SnapshotStore(folder)
    written(store, "first")
    (folder / "snapshots/first/manifest.json").write_bytes(data)
    with pytest.raises(SnapshotDamagedError):
        store.find("first")
    assert store.all() == ()
