"""Reading a log: the time that is asked for, bounded memory, and odd lines passed over."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from egress.audit.chain import MAX_LINE_BYTES
from egress.errors import UnreadableError, UsageError
from egress.review.drafting.log_reader import TimeRange, find, read

NOW = 1_790_000_000  # 2026-09-21T14:13:20Z


def put(folder: Path, number: int, *lines: bytes) -> None:
    (folder / f"audit-{number:06d}.jsonl").write_bytes(b"".join(lines))


def line(seq: int, time: str, request: str = "c-1-1") -> bytes:
    fields = {
        "seq": seq,
        "time": time,
        "event": "exchange",
        "request": request,
        "connection": "c-1",
        "mac": "",
    }
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"


def seqs(folder: Path, since: TimeRange) -> list[object]:
    return [fields["seq"] for fields in read(folder, since) if isinstance(fields, dict)]


def test_reads_files_in_order_and_only_the_time_that_is_wanted(tmp_path: Path) -> None:
    put(tmp_path, 2, line(3, "2026-09-21T14:13:19.000000Z"))
    put(tmp_path, 1, line(1, "2026-09-20T14:13:19.999999Z"), line(2, "2026-09-20T14:13:20.000000Z"))
    assert seqs(tmp_path, TimeRange.of("1d", NOW)) == [2, 3]
    assert seqs(tmp_path, TimeRange(0, NOW - 86400)) == [1]


def test_a_clock_that_went_back_hides_nothing(tmp_path: Path) -> None:
    put(
        tmp_path,
        1,
        line(1, "2026-09-21T14:00:00.000000Z"),
        line(2, "2026-01-01T00:00:00.000000Z"),
        line(3, "2026-09-21T14:00:01.000000Z"),
    )
    assert seqs(tmp_path, TimeRange.of("1d", NOW)) == [1, 3]


def test_odd_lines_are_counted_and_the_good_ones_served(tmp_path: Path) -> None:
    time = "2026-09-21T14:00:00.000000Z"
    huge = b'{"seq":9,"time":"' + time.encode() + b'","x":"' + b"a" * (2 * MAX_LINE_BYTES) + b'"}\n'
    broken = line(5, time)[:-3] + b"\n"
    deep = b'{"seq":6,"time":"' + time.encode() + b'","x":' + b"[" * 100_000 + b"\n"
    put(tmp_path, 1, line(1, time), b"nonsense\n", huge, broken, deep, line(2, time), line(3, time)[:-1])
    since = TimeRange.of("1d", NOW)
    assert seqs(tmp_path, since) == [1, 2]
    # What has no end yet is being written.
    assert since.odd == 4
    put(tmp_path, 2, line(4, time))
    after = TimeRange.of("1d", NOW)
    assert seqs(tmp_path, after) == [1, 2, 4]
    assert after.odd == 5


@pytest.mark.parametrize(("text", "start"), [("2h", NOW - 7200), ("2026-09-21", 1_789_948_800)])
def test_reads_a_time_ago_and_a_day(text: str, start: int) -> None:
    assert TimeRange.of(text, NOW).start == start


def test_refuses_what_is_no_time() -> None:
    with pytest.raises(UsageError, match="neither a time ago nor a moment"):
        TimeRange.of("yesterday", NOW)


def test_says_where_no_log_is(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="there is no audit log"):
        list(read(tmp_path, TimeRange(0)))
    with pytest.raises(UnreadableError, match="cannot be read"):
        find(tmp_path / "nowhere", "c-1")


def test_finds_the_newest_line_of_an_id(tmp_path: Path) -> None:
    time = "2026-09-21T14:00:00.000000Z"
    put(tmp_path, 1, line(1, time, "c-9"), line(2, time))
    put(tmp_path, 2, line(3, time), line(4, time), line(5, time, "c-1-10"))
    found = find(tmp_path, "c-1-1")
    assert found is not None
    assert found.seq == 4
    older = find(tmp_path, "c-9")
    assert older is not None
    assert older.seq == 1
    assert find(tmp_path, "c-77") is None
