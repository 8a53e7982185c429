"""Checking a log: each fault by its place, its kind, and once."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from unittest.mock import patch

import pytest

from egress.audit import Verification
from egress.audit.checkpoint import FILE_NAME
from egress.audit.files import ANCHOR
from egress.audit.verified_digest import VerifiedExtent
from egress.audit.verify import HINTS, MAX_FAULTS, FaultKind, verify
from egress.errors import UnreadableError
from tests.unit.audit.sample import KEY, NAME, abandon, check, files, moments, opened, read, sound

Places = list[tuple[str, int, FaultKind]]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of nine lines in three files."""
    folder = tmp_path / "log"
    sink = opened(folder, rotate_at=1000)
    for _ in range(7):
        sink.refusal(NAME)
        sink.flush()
    sink.close()
    assert [len(file.read_bytes().splitlines()) for file in files(folder)] == [3, 4, 2]
    return folder


def lines(file: Path) -> list[bytes]:
    return file.read_bytes().splitlines(keepends=True)


def places(verified: Verification) -> Places:
    return [(fault.file, fault.line, fault.kind) for fault in verified.faults]


def test_a_sound_log_says_how_much_there_is_and_where_it_ends(log: Path) -> None:
    verified = sound(log)
    assert (verified.lines, verified.files, verified.newest, verified.unfinished) == (9, 3, 9, 0)
    assert verified.mac == read(log)[-1]["mac"]


def test_checking_changes_nothing(log: Path) -> None:
    before = {path.name: path.read_bytes() for path in log.iterdir()}
    check(log)
    assert {path.name: path.read_bytes() for path in log.iterdir()} == before


@pytest.mark.parametrize("at", [10, 60, -50, -3])
def test_a_line_that_was_changed_is_one_fault_at_its_place(at: int, log: Path) -> None:
    file = files(log)[1]
    first, second, *rest = lines(file)
    changed = bytearray(second)
    changed[at] ^= 1
    file.write_bytes(first + bytes(changed) + b"".join(rest))
    ((name, line, kind),) = places(check(log))
    assert (name, line) == ("audit-000002.jsonl", 2)
    assert kind in ("altered", "foreign")


def test_a_line_that_is_missing_is_named_at_the_line_behind_it(log: Path) -> None:
    file = files(log)[1]
    first, _, third, fourth = lines(file)
    file.write_bytes(first + third + fourth)
    (fault,) = check(log).faults
    assert str(fault) == "audit-000002.jsonl:2: lines are missing before this one: number 5 to 5"


def test_a_line_that_was_added_is_one_fault(log: Path) -> None:
    file = files(log)[1]
    first, *rest = lines(file)
    file.write_bytes(first + b'{"seq":5,"event":"mine"}\n' + b"".join(rest))
    assert places(check(log)) == [("audit-000002.jsonl", 2, "foreign")]


def test_a_line_that_stands_twice_is_one_fault(log: Path) -> None:
    file = files(log)[1]
    first, *rest = lines(file)
    file.write_bytes(first + first + b"".join(rest))
    (fault,) = check(log).faults
    assert (fault.file, fault.line) == ("audit-000002.jsonl", 2)
    assert "stands in the wrong place" in fault.message


def test_lines_that_changed_places_are_found(log: Path) -> None:
    file = files(log)[1]
    first, second, third, fourth = lines(file)
    file.write_bytes(first + third + second + fourth)
    assert check(log).faults[0].line == 2


@pytest.mark.parametrize("lost", [1, 10, 400])
def test_a_tail_that_was_cut_is_found_by_the_head(lost: int, log: Path) -> None:
    file = files(log)[2]
    file.write_bytes(file.read_bytes()[:-lost])
    assert "cut" in [kind for _, _, kind in places(check(log))]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_file_that_is_missing_is_named(number: int, log: Path) -> None:
    files(log)[number - 1].unlink()
    assert (f"audit-00000{number}.jsonl", 0, "file") in places(check(log))


def test_a_missing_file_in_the_middle_is_one_fault(log: Path) -> None:
    files(log)[1].unlink()
    assert places(check(log)) == [("audit-000002.jsonl", 0, "file")]


def test_a_file_far_beyond_the_others_is_one_fault(log: Path) -> None:
    """An empty file is enough to name a billion that are missing."""
    (log / "audit-999999999999.jsonl").touch()
    (fault,) = check(log).faults
    assert str(fault) == (
        "audit-000004.jsonl: this file of the log is missing,"
        " and so are those behind it up to audit-999999999998.jsonl"
    )


def test_very_many_faults_are_counted(log: Path) -> None:
    file = files(log)[2]
    file.write_bytes(file.read_bytes() + b"\n" * (MAX_FAULTS + 500))
    *told, last = check(log).faults
    assert len(told) == MAX_FAULTS
    assert last.message == "there are 500 faults more"


def test_very_many_faults_hide_none_behind_them(log: Path) -> None:
    file = files(log)[1]
    data = file.read_bytes()
    file.write_bytes(b"\n" * MAX_FAULTS + data.replace(b"evil", b"good", 1))
    assert check(log).faults[-1].message == "there are 1 faults more"


def test_files_that_changed_names_are_found(log: Path) -> None:
    one, two, _ = files(log)
    data = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(data)
    assert not check(log).is_sound


@pytest.mark.parametrize("name", [FILE_NAME, ANCHOR])
def test_a_changed_head_or_anchor_is_named(name: str, tmp_path: Path) -> None:
    sink = opened(tmp_path, rotate_at=500, keep=2)
    for _ in range(5):
        sink.refusal(NAME)
        sink.flush()
    sink.close()
    sound(tmp_path)
    data = bytearray((tmp_path / name).read_bytes())
    data[12] ^= 1
    (tmp_path / name).write_bytes(data)
    ((file, line, _),) = places(check(tmp_path))
    assert (file, line) == (name, 0)


def test_a_missing_head_is_named(log: Path) -> None:
    (log / FILE_NAME).unlink()
    assert places(check(log)) == [("head", 0, "head")]


def test_what_a_start_found_damaged_stays_a_fault(log: Path) -> None:
    file = files(log)[2]
    file.write_bytes(file.read_bytes()[:-500])
    opened(log).close()
    opened(log).close()
    verified = check(log)
    assert ("audit-000004.jsonl", 1, "gap") in places(verified)
    assert verified.newest == read(log)[-1]["seq"]


def test_the_fragment_that_a_kill_left_may_not_be_changed_either(tmp_path: Path) -> None:
    log = tmp_path / "log"
    sink = opened(log)
    sink.refusal(NAME)
    found = moments(log, sink.flush, every=100)
    abandon(sink)
    found[3].put(log)
    opened(log).close()
    sound(log)
    file = files(log)[0]
    data = file.read_bytes()
    assert data[200:202] == b"#\n"
    for changed in (b"x" + data[1:], data[1:], data[202:], data[:200] + data[201:], b"x\n" + data):
        file.write_bytes(changed)
        assert not check(log).is_sound


def test_it_may_run_while_the_log_is_written(tmp_path: Path) -> None:
    """Whatever moment of a write it sees is a sound log, and the next writer is not kept out."""
    log, copy = tmp_path / "log", tmp_path / "copy"
    sink = opened(log)
    sink.refusal(NAME)
    sink.flush()
    sink.refusal(NAME)
    unfinished = []
    for here in moments(log, sink.flush, every=50):
        here.put(copy)
        unfinished.append(sound(copy).unfinished)
    assert (unfinished[0], unfinished[1], unfinished[-1]) == (0, 1, 0)
    assert check(log).is_sound
    sink.close()


def test_a_log_without_lines_is_sound(tmp_path: Path) -> None:
    opened(tmp_path).close()
    assert sound(tmp_path).lines == 0


@pytest.mark.parametrize("folder", ["", "none"])
def test_where_there_is_no_log_it_says_so(folder: str, tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="audit log"):
        check(tmp_path / folder)


def test_another_key_is_not_taken_for_damage(log: Path) -> None:
    with pytest.raises(UnreadableError, match="not written with this key"):
        verify(log, bytes(32))
    assert verify(log, KEY).is_sound


def test_every_kind_of_fault_says_what_to_do() -> None:
    assert all(HINTS.values())


def test_a_line_without_end_is_one_fault_and_takes_no_memory(log: Path) -> None:
    file = files(log)[0]
    file.write_bytes(file.read_bytes() + b"x" * 1_000_000)
    assert places(check(log)) == [("audit-000001.jsonl", 4, "foreign")]


@pytest.mark.parametrize("size", [700, 1 << 20])
def test_what_was_gone_over_is_kept_up_to_the_last_line_end(size: int, tmp_path: Path) -> None:
    sink = opened(tmp_path, rotate_at=2500)
    for _ in range(20):
        sink.refusal(NAME)
        sink.flush()
    sink.close()
    there = files(tmp_path)
    assert len(there) > 2
    there[0].write_bytes(there[0].read_bytes() + b"y" * 300_000 + b"\n")
    whole = [file.read_bytes() for file in there]
    there[-1].write_bytes(whole[-1] + b'{"seq":')
    with patch("egress.audit.quick_verify.CHUNK", size):
        found = verify(tmp_path, KEY, keeps_seen=True).seen
    assert found == tuple(
        VerifiedExtent(number, len(data), sha256(data).digest()) for number, data in enumerate(whole, 1)
    )
    assert verify(tmp_path, KEY).seen == ()
