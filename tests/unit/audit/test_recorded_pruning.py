"""Letting go of old files on the record: nothing goes without a trace, whatever happens in between."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from egress.audit import Sink
from egress.audit import files as disk
from egress.audit.chain import Keys
from egress.audit.files import Pruning
from egress.audit.recorded_pruning import PROXY, PendingPrunings, delete_files
from tests.unit.audit.sample import KEY, MOMENT, NAME, Clock, abandon, files, full_at, opened, read, sound

KEYS = Keys.of(KEY)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Six files and a few lines in each."""
    sink = filled(tmp_path / "log", 6)
    sink.close()
    return tmp_path / "log"


def filled(log: Path, count: int) -> Sink:
    """A log with so many files, and who writes it."""
    sink = opened(log, rotate_at=500)
    while len(files(log)) < count:
        sink.refusal(NAME)
        sink.flush()
    return sink


@contextmanager
def deleting(log: Path) -> Iterator[None]:
    """As the one that may delete."""
    descriptor = disk.lock_oldest(log)
    assert descriptor is not None
    try:
        yield
    finally:
        os.close(descriptor)


def pruned(log: Path, first: int, by: str = "root", *, at: int = MOMENT, is_forced: bool = False) -> None:
    """Delete all files before this one."""
    gone = [number for number in disk.numbers(log) if number < first]
    with deleting(log):
        assert delete_files(log, KEYS, gone, first, by, at, is_forced=is_forced)


def told(log: Path) -> list[dict[str, object]]:
    """The lines that tell of it."""
    return [line for line in read(log) if line["event"] == "pruned"]


def anchored(log: Path) -> disk.Anchor:
    anchor = disk.read_anchor(log, KEYS.anchor)
    assert anchor is not None
    return anchor


def test_the_anchor_says_who_deleted_what_when_and_how_far(log: Path) -> None:
    size = sum(path.stat().st_size for path in files(log)[:3])
    pruned(log, 4)
    assert anchored(log).pruning == Pruning("root", MOMENT, 3, size, read(log)[0]["seq"])  # type: ignore[arg-type]  # a number
    assert [path.name for path in files(log)] == [disk.name(number) for number in (4, 5, 6)]
    found = sound(log)
    assert found.pruning == anchored(log).pruning
    assert not anchored(log).is_told


def test_the_next_start_writes_one_line_of_it(log: Path) -> None:
    pruned(log, 4)
    for _ in range(3):
        sink = opened(log)
        sink.tick()
        sink.close()
    [line] = told(log)
    size, seq = anchored(log).pruning.size, anchored(log).pruning.seq  # type: ignore[union-attr]  # it was pruned
    facts = {"by": "root", "at": "2026-03-01T09:30:00.000123Z", "files": 3, "bytes": size, "first": seq}
    assert line.items() >= {**facts, "forced": False}.items()
    assert anchored(log).is_told
    sound(log)


def test_whoever_writes_the_log_just_then_writes_the_line_within_a_second(log: Path) -> None:
    sink = opened(log)
    pruned(log, 3)
    sink.flush()
    assert told(log) == []
    sink.tick()
    assert [line["by"] for line in told(log)] == ["root"]
    pruned(log, 4, "alice")
    sink.tick()
    sink.tick()
    assert [line["by"] for line in told(log)] == ["root", "alice"]
    sink.close()
    sound(log)


def test_the_proxy_tells_of_what_it_deletes_by_its_setting(tmp_path: Path) -> None:
    sink = filled(tmp_path, 3)
    sink.close()
    sink = opened(tmp_path, rotate_at=500, keep=2)
    for _ in range(3):
        sink.refusal(NAME)
        sink.flush()
        sink.tick()
    sink.close()
    assert {line["by"] for line in told(tmp_path)} == {PROXY}
    # Some of these lines may have gone by the same setting.
    assert anchored(tmp_path).pruning.files >= 1  # type: ignore[union-attr]  # it was pruned
    sound(tmp_path)


def test_two_prunings_before_a_line_are_one_line_that_names_both(log: Path) -> None:
    sizes = [path.stat().st_size for path in files(log)]
    pruned(log, 3, "root", is_forced=True)
    pruned(log, 4, "alice", at=MOMENT + 10**9)
    pruned(log, 5, "root", at=MOMENT + 2 * 10**9)
    opened(log).close()
    [line] = told(log)
    facts = {"by": "root, alice", "files": 4, "bytes": sum(sizes[:4]), "forced": True}
    assert line.items() >= facts.items()
    assert line["at"] == "2026-03-01T09:30:02.000123Z"
    assert line["first"] == read(log)[0]["seq"]


def test_what_a_line_told_is_not_told_again_with_the_next(log: Path) -> None:
    pruned(log, 3)
    opened(log).close()
    pruned(log, 4, "alice")
    opened(log).close()
    assert [(line["by"], line["files"]) for line in told(log)] == [("root", 2), ("alice", 1)]


# Kills ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("deleted", range(4))
def test_a_kill_among_the_deletions_leaves_a_sound_log_and_a_trace(
    deleted: int, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unlink, left = Path.unlink, iter(range(deleted))

    def until_killed(path: Path, missing_ok: bool = False) -> None:
        if path.name.startswith("audit-") and next(left, None) is None:
            raise KeyboardInterrupt
        unlink(path, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", until_killed)
        if deleted < 3:
            with pytest.raises(KeyboardInterrupt), deleting(log):
                delete_files(log, KEYS, [1, 2, 3], 4, "root", MOMENT)
        else:
            pruned(log, 4)
    assert len(files(log)) == 6 - deleted
    sound(log)
    opened(log).close()
    assert [(line["by"], line["files"]) for line in told(log)] == [("root", 3)]
    sound(log)
    # What the kill left there goes with the next one.
    pruned(log, 5)
    assert len(files(log)) == 2
    sound(log)


def test_a_kill_before_the_line_leaves_it_to_the_next_start(log: Path) -> None:
    sink = opened(log)
    pruned(log, 4)
    abandon(sink)
    assert told(log) == []
    opened(log).close()
    assert len(told(log)) == 1


def test_a_kill_between_the_line_and_its_mark_makes_it_come_twice(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = opened(log)
    pruned(log, 4)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(disk, "write_anchor", killed)
        with pytest.raises(KeyboardInterrupt):
            sink.tick()
    abandon(sink)
    opened(log).close()
    assert [line["by"] for line in told(log)] == ["root", "root"]
    opened(log).close()
    assert len(told(log)) == 2
    sound(log)


def test_on_a_full_disk_the_line_waits(log: Path) -> None:
    clock = Clock()
    sink = opened(log, clock)
    pruned(log, 4)
    with full_at(files(log)[-1].stat().st_size + 10):
        sink.tick()
        sink.tick()
    assert told(log) == []
    assert not anchored(log).is_told
    clock.seconds += 2
    sink.tick()
    sink.tick()
    assert {line["by"] for line in told(log)} == {"root"}
    assert anchored(log).is_told
    sink.close()
    sound(log)


# Others -----------------------------------------------------------------------------------------


def test_while_somebody_deletes_the_line_waits(log: Path) -> None:
    pruned(log, 3)
    sink = opened(log)
    sink.tick()
    pruned(log, 4)
    with deleting(log):
        sink.tick()
        assert len(told(log)) == 1
    sink.tick()
    assert len(told(log)) == 2
    sink.close()


def test_a_file_that_names_nothing_before_it_stays_with_all_others(log: Path) -> None:
    files(log)[3].write_bytes(b"junk\n")
    with deleting(log):
        assert not delete_files(log, KEYS, [1, 2, 3], 4, "root", MOMENT)
    assert len(files(log)) == 6
    assert disk.read_anchor(log, KEYS.anchor) is None


def test_a_damaged_anchor_stops_nobody_and_is_not_believed(log: Path) -> None:
    pruned(log, 3)
    data = bytearray((log / disk.ANCHOR).read_bytes())
    data[60] ^= 1
    (log / disk.ANCHOR).write_bytes(data)
    sink = opened(log)
    sink.refusal(NAME)
    sink.tick()
    assert told(log) == []
    # Whoever insists puts a good one in its place, which speaks of itself alone.
    pruned(log, 4, "alice", is_forced=True)
    sink.tick()
    sink.close()
    assert [(line["by"], line["files"], line["forced"]) for line in told(log)] == [("alice", 1, True)]


def test_an_anchor_that_cannot_be_read_stops_nobody(log: Path) -> None:
    (log / disk.ANCHOR).mkdir()
    sink = opened(log)
    sink.refusal(NAME)
    sink.tick()
    sink.close()
    assert read(log)[-1]["event"] == "refusal"


def test_an_anchor_of_before_has_nothing_to_tell(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pruned(log, 3)
    old = disk.Anchor(3, anchored(log).mac, None, is_told=True)
    with monkeypatch.context() as patch:
        patch.setattr(disk, "read_anchor", lambda *_: old)
        opened(log).close()
        assert told(log) == []
        pruned(log, 4, "alice")
    opened(log).close()
    assert [(line["by"], line["files"]) for line in told(log)] == [("alice", 1)]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root deletes for somebody else")
def test_the_owner_of_the_folder_can_read_what_root_leaves(log: Path) -> None:
    for path in (log, *log.iterdir()):
        os.chown(path, 65534, 65534)
    pruned(log, 4)
    found = (log / disk.ANCHOR).stat()
    assert (found.st_uid, found.st_gid) == (65534, 65534)


def test_what_was_looked_at_is_not_read_again(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked once a second, for ever."""
    pruned(log, 4)
    written: list[Pruning] = []

    def write(value: Pruning) -> bool:
        written.append(value)
        return True

    untold = PendingPrunings(log, KEYS.anchor)
    untold.record_due(write)
    with monkeypatch.context() as patch:
        patch.setattr(disk, "read_anchor", None)
        untold.record_due(write)
    assert len(written) == 1
