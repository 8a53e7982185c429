"""A copy of a log is taken while it is written, and verifies at every moment."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.audit.log_copy import LogPart, copied_parts, is_log_file, read_known, read_parts, write_parts
from egress.errors import ContentError, WireError
from tests.unit.audit.chained_log import opened_log, sound_log, write_chains

PARTS = [
    LogPart("audit-000001.jsonl", 0, b"one\n"),
    LogPart("head", 0, b"h" * 100),
    LogPart("chains/0002/audit-000012.jsonl", 77, b""),
    LogPart("chains/register", 0, b"\xff\n"),
]


def written(parts: list[LogPart]) -> bytes:
    out = io.BytesIO()
    write_parts(parts, out)
    return out.getvalue()


def read(data: bytes) -> list[LogPart]:
    return list(read_parts(io.BytesIO(data)))


def lay_down(parts: list[LogPart], folder: Path) -> None:
    for part in parts:
        place = folder / part.name
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("ab" if part.is_lines else "wb") as file:
            file.write(part.data)


def test_a_copy_of_a_whole_log_verifies(tmp_path: Path) -> None:
    write_chains(tmp_path / "log", 3)
    lay_down(list(copied_parts(tmp_path / "log", {})), tmp_path / "copy")
    assert sound_log(tmp_path / "copy").lines == sound_log(tmp_path / "log").lines


def test_a_second_copy_brings_the_new_lines_alone(tmp_path: Path) -> None:
    log = tmp_path / "log"
    sink = opened_log(log)
    first = list(copied_parts(log, {}))
    sink.event("reloaded", policy="new")
    sink.flush()
    known = {part.name: part.offset + len(part.data) for part in first if part.is_lines}
    (lines,) = [part for part in copied_parts(log, known) if part.is_lines]
    sink.close()
    assert lines.offset == known[lines.name]
    assert lines.data.count(b"\n") == 1
    assert b'"policy":"new"' in lines.data


def test_a_line_that_is_being_written_waits_for_the_next_copy(tmp_path: Path) -> None:
    write_chains(tmp_path / "log", 1)
    file = tmp_path / "log/audit-000001.jsonl"
    whole = file.read_bytes()
    with file.open("ab") as end:
        end.write(b'{"seq":9')
    (lines,) = [part for part in copied_parts(tmp_path / "log", {}) if part.is_lines]
    assert lines.data == whole


def test_a_file_without_any_line_end_is_not_read_for_ever(tmp_path: Path) -> None:
    write_chains(tmp_path / "log", 1)
    (tmp_path / "log/audit-000001.jsonl").write_bytes(b"x" * 3_000_000)
    assert not [part for part in copied_parts(tmp_path / "log", {}) if part.is_lines]


def test_the_head_is_read_before_the_lines_of_its_chain(tmp_path: Path) -> None:
    """A head that is newer than the lines of a copy would tell of a cut. New lines are for the next copy."""
    log = tmp_path / "log"
    sink = opened_log(log)
    parts = []
    for part in copied_parts(log, {}):
        parts.append(part)
        # Between any two parts the proxy writes on.
        sink.event("reloaded", policy="later")
        sink.flush()
    sink.close()
    lay_down(parts, tmp_path / "copy")
    assert sound_log(tmp_path / "copy").lines
    assert sum(part.data.count(b'"policy":"later"') for part in parts) == 0


def test_parts_come_back_as_they_were_written() -> None:
    assert read(written(PARTS)) == PARTS


@pytest.mark.parametrize(
    "name",
    [
        "../audit-000001.jsonl",
        "/etc/passwd",
        "chains/../head",
        "chains/00002/head",
        "audit-1.jsonl",
        "head\n",
        "",
    ],
)
def test_a_part_of_another_file_is_refused(name: str) -> None:
    assert not is_log_file(name)
    with pytest.raises(WireError, match="another file"):
        read(written([LogPart(name, 0, b"")]))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]\n",
        b'{"name":"head","offset":-1,"size":0}\n',
        b'{"name":"head","offset":0,"size":99999999999}\n',
        b'{"name":"head","offset":0,"size":5}\nab',
        b'{"name":"head","offset":0,"size":0,"mode":"0777"}\n',
        written(PARTS)[:-1],
        b"x" * 10_000,
    ],
)
def test_a_stream_that_is_cut_short_or_malformed_is_an_error(data: bytes) -> None:
    with pytest.raises(WireError):
        read(data)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        found = read(data)
    except WireError:
        return
    assert all(is_log_file(part.name) for part in found)


def test_sizes_are_read_strictly() -> None:
    assert read_known(b"") == {}
    assert read_known(b'{"audit-000001.jsonl": 12}') == {"audit-000001.jsonl": 12}


@pytest.mark.parametrize(
    "data", [b"x", b"[1]", b'{"audit-000001.jsonl": -1}', b'{"audit-000001.jsonl": true}', b'{"../head": 1}']
)
def test_other_sizes_are_an_error(data: bytes) -> None:
    with pytest.raises(ContentError):
        read_known(data)
