"""The order of a write, a disk that is full, and rotation."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.audit import Sink
from egress.audit.chain import Keys
from egress.audit.checkpoint import decode
from egress.audit.files import ANCHOR
from egress.audit.writer import MAX_UNFLUSHED_LINES, count_whole_lines
from tests.unit.audit.sample import (
    DENIED,
    FACTS,
    KEY,
    NAME,
    OPENING,
    RECORD,
    Clock,
    abandon,
    check,
    files,
    full_at,
    kinds,
    moments,
    opened,
    sound,
)
from tests.unit.audit.sample import read as lines_of


def one(sink: Sink) -> None:
    sink.exchange(sink.begin(OPENING), RECORD, FACTS)


def test_nothing_is_written_before_the_flush(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    one(sink)
    assert files(tmp_path)[0].stat().st_size == 0
    sink.flush()
    assert kinds(tmp_path) == ["exchange"]
    sink.close()


def test_the_head_speaks_before_the_line_and_after_it(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    sink.refusal(NAME)
    steps = moments(tmp_path, sink.flush, every=10_000)
    sink.close()
    told = []
    for step in steps:
        head = decode(step.files["head"], Keys.of(KEY).head)
        assert head is not None
        told.append((head.intended.seq, len(step.files["audit-000001.jsonl"]) > 0, head.written.seq))
    assert told == [(0, False, 0), (1, False, 0), (1, True, 0), (1, True, 1), (1, True, 1)]


def test_a_slot_is_freed_when_its_line_is_there_and_not_before(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    one(sink)
    steps = moments(tmp_path, sink.flush, every=10_000)
    sink.close()
    states = [int.from_bytes(step.files["in-flight"][1024:1032], "little") for step in steps]
    assert states == [1, 1, 1, 1, 0]


def test_many_lines_are_written_without_waiting(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    for _ in range(MAX_UNFLUSHED_LINES):
        sink.event("stopped")
    assert len(lines_of(tmp_path)) == MAX_UNFLUSHED_LINES
    sink.close()


@pytest.mark.parametrize(
    ("size", "found"), [(0, (0, 0)), (2, (0, 2)), (3, (1, 0)), (4, (1, 1)), (5, (2, 0)), (9, (2, 4))]
)
def test_bytes_are_counted_in_lines(size: int, found: tuple[int, int]) -> None:
    assert count_whole_lines([b"abc", b"de"], size) == found


# A full disk ------------------------------------------------------------------------------------


def test_what_did_not_fit_is_written_when_there_is_space_again(tmp_path: Path) -> None:
    clock = Clock()
    sink = opened(tmp_path, clock)
    for _ in range(3):
        one(sink)
    assert sink.write_failures == 0
    with full_at(1500):
        sink.flush()
        assert sink.trouble == "EFBIG"
        assert sink.write_failures == 1
        assert files(tmp_path)[0].stat().st_size == 1500
    clock.seconds += 1
    sink.tick()
    assert not sink.trouble
    sink.close()
    assert kinds(tmp_path) == ["exchange"] * 3 + ["resumed"]
    assert lines_of(tmp_path)[-1]["reason"] == "EFBIG"
    assert lines_of(tmp_path)[-1]["milliseconds"] == 1000
    sound(tmp_path)


def test_it_is_tried_once_a_second_at_most(tmp_path: Path) -> None:
    clock = Clock()
    sink = opened(tmp_path, clock)
    one(sink)
    with full_at(10):
        sink.flush()
    for _ in range(5):
        clock.seconds += 0.19
        assert not sink.may_work("agent-1")
    clock.seconds += 0.1
    assert sink.may_work("agent-1")
    sink.close()


def test_a_full_disk_and_then_a_kill_loses_nothing(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    for _ in range(3):
        one(sink)
    with full_at(1500):
        sink.flush()
    abandon(sink)
    opened(tmp_path).close()
    assert kinds(tmp_path) == ["exchange", "gap", "lost", "lost"]
    sound(tmp_path)


def test_a_full_disk_at_the_end_is_told_by_the_next_start(tmp_path: Path) -> None:
    sink = opened(tmp_path)
    one(sink)
    sink.refusal(NAME)
    with full_at(200):
        sink.close()
    opened(tmp_path).close()
    assert kinds(tmp_path) == ["gap", "lost"]
    sound(tmp_path)


# Rotation ---------------------------------------------------------------------------------------


def test_a_file_that_is_large_enough_is_the_last_but_one(tmp_path: Path) -> None:
    sink = opened(tmp_path, rotate_at=1700)
    for _ in range(5):
        one(sink)
        sink.flush()
    sink.close()
    assert [file.name for file in files(tmp_path)] == [f"audit-00000{n}.jsonl" for n in (1, 2, 3)]
    assert kinds(tmp_path).count("rotated") == 2
    sound(tmp_path)


def test_the_first_line_of_a_file_names_the_one_before(tmp_path: Path) -> None:
    sink = opened(tmp_path, rotate_at=1)
    one(sink)
    sink.flush()
    sink.close()
    last, first = lines_of(tmp_path)[:2]
    assert first["file"] == "audit-000001.jsonl"
    assert first["previous"] == last["mac"]


def test_the_oldest_files_can_be_deleted(tmp_path: Path) -> None:
    sink = opened(tmp_path, rotate_at=500, keep=2)
    for _ in range(6):
        one(sink)
        sink.flush()
    sink.close()
    assert [file.name for file in files(tmp_path)] == ["audit-000006.jsonl", "audit-000007.jsonl"]
    assert sound(tmp_path).files == 2


def test_a_log_whose_beginning_was_deleted_goes_on(tmp_path: Path) -> None:
    for _ in range(3):
        sink = opened(tmp_path, rotate_at=500, keep=2)
        for _ in range(3):
            one(sink)
            sink.flush()
        sink.close()
        sound(tmp_path)
    # The last two starts each had a line to write of what went before.
    assert [line["seq"] for line in lines_of(tmp_path)][-1] == 18 + 2


def test_without_the_anchor_a_deleted_beginning_is_a_fault(tmp_path: Path) -> None:
    sink = opened(tmp_path, rotate_at=500, keep=2)
    for _ in range(6):
        one(sink)
        sink.flush()
    sink.close()
    (tmp_path / ANCHOR).unlink()
    assert {fault.kind for fault in check(tmp_path).faults} == {"file"}


def test_a_fragment_at_the_beginning_of_a_file_can_be_the_anchor(tmp_path: Path) -> None:
    """A kill in the first line of a new file, and that file becomes the oldest one."""
    log = tmp_path / "log"
    sink = opened(log, rotate_at=500)
    one(sink)
    steps = moments(log, sink.flush, every=20)
    abandon(sink)
    here = next(step for step in steps if 0 < len(step.files.get("audit-000002.jsonl", b"")) < 100)
    here.put(log)
    sink = opened(log, rotate_at=500, keep=2)
    one(sink)
    sink.close()
    assert files(log)[0].read_bytes().startswith(b'{"seq":2')
    assert b"#\n" in files(log)[0].read_bytes()
    sound(log)


def test_folded_and_denied_lines_are_rotated_like_others(tmp_path: Path) -> None:
    clock = Clock()
    sink = opened(tmp_path, clock, rotate_at=4000)
    for _ in range(100):
        sink.exchange(None, DENIED, FACTS)
        clock.seconds += 0.3
        sink.tick()
    sink.close()
    assert len(files(tmp_path)) > 5
    assert kinds(tmp_path).count("exchange") == 100
    sound(tmp_path)
