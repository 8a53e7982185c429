"""What a start finds at the end of a log, case by case."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.audit.chain import Chain, Keys, parse_line
from egress.audit.checkpoint import FILE_NAME, LogPosition
from egress.audit.resume_point import ResumePoint, find_resume_point, first_line, previous_mac_in, read_lines
from egress.errors import UnreadableError
from tests.unit.audit.sample import KEY, NAME, abandon, files, moments, opened

KEYS = Keys.of(KEY)


def written(log: Path, refusals: int = 3) -> Path:
    sink = opened(log)
    for _ in range(refusals):
        sink.refusal(NAME)
    sink.close()
    return files(log)[0]


def test_an_empty_folder_is_a_new_log(tmp_path: Path) -> None:
    assert find_resume_point(tmp_path, KEYS) == ResumePoint(LogPosition(), 0, 1, is_fresh=True)


def test_a_log_that_was_closed_goes_on_behind_its_last_line(tmp_path: Path) -> None:
    file = written(tmp_path)
    found = find_resume_point(tmp_path, KEYS)
    size = file.stat().st_size
    assert (found.end.seq, found.end.offset, found.offset, found.next_seq) == (3, size, size, 4)
    assert found.gap is None


def test_looking_changes_nothing(tmp_path: Path) -> None:
    written(tmp_path)
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()}
    find_resume_point(tmp_path, KEYS)
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()} == before


def test_a_kill_in_a_write_keeps_whole_lines_and_names_the_others(tmp_path: Path) -> None:
    log, copy = tmp_path / "log", tmp_path / "copy"
    written(log, 1)
    sink = opened(log)
    sink.refusal(NAME)
    sink.refusal(NAME)
    size = files(log)[0].stat().st_size
    found = moments(log, sink.flush, every=1)
    abandon(sink)
    line = (files(log)[0].stat().st_size - size) // 2
    for written_bytes, last, fragment in ((1, 1, 1), (line, 2, 0), (line + 7, 2, 7)):
        here = next(m for m in found if len(m.files["audit-000001.jsonl"]) == size + written_bytes)
        recovered = find_resume_point(here.put(copy), KEYS)
        assert recovered.end.seq == last
        assert recovered.gap is not None
        assert recovered.gap.kind == "killed"
        assert recovered.gap.missing == (last + 1, 3)
        assert recovered.gap.size == (fragment + 2 if fragment else 0)
        assert recovered.next_seq == 4
        assert recovered.offset == size + written_bytes


def test_a_tail_that_is_cut_goes_on_in_a_new_file(tmp_path: Path) -> None:
    file = written(tmp_path)
    file.write_bytes(file.read_bytes()[:-1])
    found = find_resume_point(tmp_path, KEYS)
    assert found.gap is not None
    assert found.gap.kind == "cut"
    assert (found.end.file, found.offset, found.next_seq) == (2, 0, 4)


def test_a_last_file_that_is_gone_is_a_cut(tmp_path: Path) -> None:
    written(tmp_path).unlink()
    found = find_resume_point(tmp_path, KEYS)
    assert found.gap is not None
    assert found.gap.kind == "cut"


def test_a_last_line_that_was_changed_goes_on_in_a_new_file(tmp_path: Path) -> None:
    file = written(tmp_path)
    data = bytearray(file.read_bytes())
    data[-10] ^= 1
    file.write_bytes(data)
    found = find_resume_point(tmp_path, KEYS)
    assert found.gap is not None
    assert found.gap.kind == "altered"


@pytest.mark.parametrize("name", ["audit-000001.jsonl", "audit-000002.jsonl", "audit-000009.jsonl"])
def test_bytes_that_nobody_announced_are_foreign(name: str, tmp_path: Path) -> None:
    written(tmp_path)
    with (tmp_path / name).open("ab") as file:
        file.write(b"{}\n")
    found = find_resume_point(tmp_path, KEYS)
    assert found.gap is not None
    assert found.gap.kind == "foreign"
    assert found.end.file > int(name[6:12])


def test_bytes_between_lines_of_a_killed_write_are_foreign_too(tmp_path: Path) -> None:
    """A kill cuts a write short; it puts nothing in the middle of it."""
    log = tmp_path / "log"
    sink = opened(log)
    for _ in range(3):
        sink.refusal(NAME)
    announced, complete = moments(log, sink.flush, every=10**6)[1:3]
    abandon(sink)
    first, second, _ = complete.files["audit-000001.jsonl"].splitlines(keepends=True)
    for data, kind in ((first + second, "killed"), (first + b"x\n" + second, "foreign")):
        announced.put(log)
        files(log)[0].write_bytes(data)
        found = find_resume_point(log, KEYS)
        assert found.gap is not None
        assert found.gap.kind == kind


def test_an_empty_file_behind_the_last_one_is_a_rotation_that_was_killed(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "audit-000002.jsonl").touch()
    assert find_resume_point(tmp_path, KEYS).gap is None


@pytest.mark.parametrize("head", [None, b"", b"x" * 200])
def test_without_a_head_it_goes_on_behind_the_last_authentic_line(head: bytes | None, tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / FILE_NAME).unlink()
    if head is not None:
        (tmp_path / FILE_NAME).write_bytes(head)
    found = find_resume_point(tmp_path, KEYS)
    assert found.gap is not None
    assert (found.gap.kind, found.end.seq, found.end.file) == ("head", 3, 2)


def test_another_key_is_refused(tmp_path: Path) -> None:
    """With it every line would look damaged, and what it wrote would be of no use to anybody."""
    written(tmp_path)
    with pytest.raises(UnreadableError, match="not written with this key"):
        find_resume_point(tmp_path, Keys.of(bytes(32)))


def test_a_file_begins_with_its_first_authentic_line(tmp_path: Path) -> None:
    chain = Chain(KEYS.line)
    first = chain.seal("T", '"a":1')
    before = chain.mac
    second = chain.seal("T", f'"event":"rotated","previous":"{before.hex()}"')
    for texts, seq, mac in (([second], 2, before), ([b"junk\n", second], 2, before), ([first], 1, bytes(32))):
        found = first_line(texts, chain)
        assert found is not None
        assert (found.seq, previous_mac_in(found)) == (seq, mac)
    assert first_line([b"junk\n", chain.seal("T", '"a":1')], chain) is None


@pytest.mark.parametrize("body", ['"a":1', '"previous":"zz"', '"x":",\\"previous\\":\\"' + "0" * 64 + '"'])
def test_a_line_that_names_no_mac_names_none(body: str) -> None:
    line = parse_line(Chain(KEYS.line).seal("T", body).removesuffix(b"\n"))
    assert line is not None
    assert previous_mac_in(line) == bytes(32)


def test_a_line_that_is_too_long_to_be_ours_comes_in_pieces(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"a" * 300_000 + b"\nb\n")
    with (tmp_path / "x").open("rb") as file:
        pieces = list(read_lines(file))
    assert [len(piece) for piece in pieces] == [262_144, 300_000 - 262_144 + 1, 2]
