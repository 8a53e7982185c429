"""The index, as a whole: right answers, and a view that can be thrown away."""

from __future__ import annotations

import os
import sqlite3
import stat
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest

from egress.errors import UnreadableError
from egress.review import Cursor, Filters, Index
from egress.review.index import LOCK
from egress.review.timestamps import DAY
from tests.unit.audit.sample import FACTS, NAME, RECORD, TUNNEL, files
from tests.unit.review.sample import START, Writing, write


@pytest.fixture
def log(tmp_path: Path) -> Path:
    write(tmp_path / "log")
    return tmp_path / "log"


def opened(log: Path, **options: int) -> Index:
    index = Index(log, reserve=options.get("reserve", 0))
    index.catch_up()
    return index


def requests(index: Index, filters: Filters | None = None) -> list[str]:
    return [entry.request or entry.event for entry in index.query(filters or Filters()).entries]


def test_it_finds_everything_newest_first(log: Path) -> None:
    with opened(log) as index:
        assert requests(index) == ["r-6", "refusal", "r-5", "r-4", "r-3", "r-2", "r-1", "started"]
        assert [entry.request for entry in index.each(Filters(event="exchange"))] == [
            "r-1",
            "r-2",
            "r-3",
            "r-4",
            "r-6",
        ]


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (Filters(sandbox="bob"), ["r-4"]),
        (Filters(host="*.example.com"), ["r-5", "r-4"]),
        (Filters(host="mail.example.com"), ["r-4"]),
        (Filters(verdict="deny"), ["refusal", "r-3"]),
        (Filters(secret="mail"), ["r-4"]),
        (Filters(secret="mai"), []),
        (Filters(status="5xx"), ["r-4"]),
        (Filters(status="403"), ["r-3"]),
        (Filters(rule="read"), ["r-2", "r-1"]),
        (Filters(rule="mail.example.com#send"), ["r-4"]),
        (Filters(method="POST"), ["r-4"]),
        (Filters(code="host.unknown"), ["refusal"]),
        (Filters(event="tunnel"), ["r-5"]),
        (Filters(profile="research"), ["r-4"]),
        (Filters(grep="user/KEYS"), ["r-2"]),
        (Filters(grep="größe"), ["r-4"]),
        (Filters(grep="ev"), ["refusal"]),
        (Filters(grep="evil.ex"), ["refusal"]),
        (Filters(grep="nowhere"), []),
        (Filters(since=START + 5 * 3600 * 10**6), ["r-6", "refusal", "r-5"]),
        (Filters(until=START + 2 * 3600 * 10**6), ["r-1", "started"]),
        (Filters(verdict="deny", sandbox="agent-1", grep="evil"), ["refusal"]),
    ],
)
def test_it_finds_what_is_asked_for(filters: Filters, found: list[str], log: Path) -> None:
    with opened(log) as index:
        if filters.grep == "ev":
            filters = filters.but(verdict="deny", event="refusal")
        assert requests(index, filters) == found


def test_a_text_in_many_different_values_is_asked_for_some_at_a_time(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(log) as index:
        at_once = requests(index, Filters(grep="EXAMPLE"))
        monkeypatch.setattr("egress.review.search._AT_ONCE", 1)
        assert requests(index, Filters(grep="EXAMPLE")) == at_once
        assert {"r-4", "r-5", "refusal"} <= set(at_once)


def test_pages_follow_each_other_without_a_gap(log: Path) -> None:
    with opened(log) as index:
        found, cursor = list[int](), None
        for _ in range(9):
            page = index.query(Filters(), 3, cursor)
            found += [entry.seq for entry in page.entries]
            cursor = None if page.cursor is None else Cursor.of(str(page.cursor))
            if cursor is None:
                break
        assert found == [8, 7, 6, 5, 4, 3, 2, 1]


def test_a_request_and_a_connection_are_found_by_their_ids(log: Path) -> None:
    with opened(log) as index:
        assert [entry.request for entry in index.find("r-4")] == ["r-4"]
        assert index.find("r-4", 0) == index.connection("c-18", 0) == []
        assert [entry.event for entry in index.connection("c-18")] == ["tunnel"]
        assert index.find("r-44") == index.find("") == index.find("\ud800") == []


def test_numbers_are_those_of_the_lines(log: Path) -> None:
    with opened(log) as index:
        found = index.stats(Filters(), "sandbox")
        assert (found.total.requests, found.total.denied, found.total.with_secret) == (7, 2, 4)
        assert [(name, numbers.requests) for name, numbers in found.rows] == [("agent-1", 6), ("bob", 1)]
        assert abs(found.total.p50_us - 53_100) < 3_200
        assert index.stats(Filters(), "secret").rows[0][0] == "github"
        others = index.stats(Filters(), "host", top=1).others
        assert others is not None
        assert others.requests == 3
        assert sum(numbers.requests for _, numbers in index.over_time(Filters())) == 7
        assert index.stats(Filters(status="5xx"), "host").total.requests == 1
        assert index.stats(Filters(grep="keys"), "host").total.requests == 1


def test_it_catches_up_with_what_was_added_only(log: Path) -> None:
    with opened(log) as index:
        sink = Writing(log)
        sink.exchange("r-7")
        sink.close()
        state = index.catch_up()
        assert (state.lines, state.behind, state.trouble) == (9, 0, "")
        assert requests(index)[0] == "r-7"
        assert index.stats(Filters()).total.requests == 8


def test_it_follows_rotation_and_survives_that_old_files_go(tmp_path: Path) -> None:
    log = tmp_path / "log"
    write(log, rotate_at=900)
    with opened(log) as index:
        before = index.stats(Filters()).total
        assert before.requests == 7
        assert index.stats(Filters(since=START, until=START + DAY)).total == before
        assert sum(numbers.requests for _, numbers in index.over_time(Filters())) == 7
        gone = files(log)[:3]
        left = sum(text.count(b'"event":"exchange"') for text in (f.read_bytes() for f in files(log)[3:]))
        for file in gone:
            file.unlink()
        index.catch_up()
        assert index.stats(Filters(event="exchange")).total.requests == left
        counted = index.over_time(Filters(event="exchange"))
        assert sum(numbers.requests for _, numbers in counted) == left
        assert index.find("r-1") == []


def test_it_lies_beside_the_lines_with_their_rights_and_can_be_thrown_away(log: Path) -> None:
    before = os.umask(0)
    try:
        opened(log).close()
    finally:
        os.umask(before)
    for name in ("index.sqlite3", f"index.sqlite3{LOCK}"):
        assert stat.S_IMODE((log / name).stat().st_mode) == 0o640
    (log / "index.sqlite3").unlink()
    with opened(log) as index:
        assert len(requests(index)) == 8


@pytest.mark.parametrize("data", [b"", b"no database", bytes(5000)])
def test_a_file_that_is_no_index_is_made_anew(data: bytes, log: Path) -> None:
    (log / "index.sqlite3").write_bytes(data)
    with opened(log) as index:
        assert len(requests(index)) == 8


def test_an_index_of_another_version_is_made_anew(log: Path) -> None:
    opened(log).close()
    with sqlite3.connect(log / "index.sqlite3") as connection:
        connection.execute("PRAGMA user_version = 99")
        connection.execute("DELETE FROM block")
    connection.close()
    with opened(log) as index:
        assert len(requests(index)) == 8


def test_lines_that_were_put_in_place_of_others_are_read_again(log: Path) -> None:
    with opened(log) as index:
        file = files(log)[0]
        lines = file.read_bytes().splitlines(keepends=True)
        file.write_bytes(b"".join(lines[:3]))
        index.catch_up()
        assert requests(index) == ["r-2", "r-1", "started"]
        assert index.stats(Filters()).total.requests == 2


def test_a_line_that_is_not_there_any_more_is_not_shown(log: Path) -> None:
    with opened(log) as index:
        file = files(log)[0]
        file.write_bytes(file.read_bytes().replace(b"r-4", b"r-9"))
        assert index.find("r-4") == []
        assert requests(index, Filters(sandbox="bob")) == ["r-9"]
        file.unlink()
        assert requests(index) == []


def test_while_another_process_writes_it_is_read(log: Path) -> None:
    with opened(log) as index:
        sink = Writing(log)
        sink.exchange("r-7")
        sink.close()
        with index._lock() as is_ours, Index(log, reserve=0) as other:
            assert is_ours
            state = other.catch_up()
            assert "another process" in state.trouble
            assert state.behind > 500
            assert requests(other)[0] == "r-6"


def test_it_leaves_the_last_of_the_disk_to_the_log(log: Path) -> None:
    opened(log).close()
    sink = Writing(log)
    sink.exchange("r-7")
    sink.close()
    with opened(log, reserve=1 << 62) as index:
        state = index.state()
        assert "nearly full" in state.trouble
        assert state.behind > 500
        assert requests(index)[0] == "r-6"


def test_without_a_log_or_a_place_it_says_so(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(UnreadableError, match="audit log"):
            Index(folder).catch_up()
    write(tmp_path / "log")
    with pytest.raises(UnreadableError, match="there is no index") as error:
        Index(tmp_path / "log", tmp_path / "none/index").catch_up()
    assert "--index" in error.value.hint


def test_it_is_never_opened_through_a_link(log: Path, tmp_path: Path) -> None:
    (log / "index.sqlite3").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnreadableError):
        Index(log, reserve=0).catch_up()
    assert not (tmp_path / "elsewhere").exists()


def test_the_fields_can_be_chosen_from(log: Path) -> None:
    with opened(log) as index:
        assert index.values("sandbox") == ("agent-1", "bob")
        assert index.values("method") == ("GET", "POST")
        assert index.values("key; DROP TABLE file") == ()


def test_a_clock_that_goes_back_changes_no_order(tmp_path: Path) -> None:
    writing = write(tmp_path / "log", close=False)
    writing.clock.ns -= 50 * 3600 * 10**9
    writing.sink.exchange(None, RECORD, replace(FACTS, request="r-back"))
    writing.sink.refusal(NAME)
    writing.sink.tunnel(None, TUNNEL)
    writing.close()
    with opened(tmp_path / "log") as index:
        assert requests(index)[2] == "r-back"
        assert "r-back" not in requests(index, Filters(since=START))
        assert index.stats(Filters(until=START)).total.requests == 3


@pytest.mark.parametrize("column", ["places", "numbers", "texts"])
def test_damage_that_a_question_comes_upon_heals_itself(column: str, log: Path) -> None:
    with opened(log) as index:
        with sqlite3.connect(log / "index.sqlite3") as connection:
            connection.execute(f"UPDATE lines SET {column} = x'00'")
        connection.close()
        assert requests(index, Filters(grep="user/keys")) == ["r-2"]
        assert index.stats(Filters(method="GET")).total.requests == 4


def test_the_newest_line_of_an_id_is_found(tmp_path: Path) -> None:
    write(tmp_path, rotate_at=3000)
    with patch("egress.review.blocks.MOST_LINES", 2), Index(tmp_path, reserve=0) as index:
        index.catch_up()
        every = index.connection("c-17")
        assert [entry.request for entry in every] == ["r-1", "r-2", "r-3", "r-4", "r-6"]
        for name, wanted in (("r-4", "r-4"), ("c-17", "r-6"), ("r-5", "r-5")):
            found = index.newest(name, lambda entry: entry.event != "refusal")
            assert found is not None
            assert found.request == wanted
        older = index.newest("c-17", lambda entry: entry.request < "r-4")
        assert older is not None
        assert older.request == "r-3"
        assert index.newest("r-77", lambda _: True) is None


@pytest.mark.parametrize("grep", ["", "user/keys", "agent"])
def test_a_block_that_was_made_anew_meanwhile_leaves_no_gap(log: Path, grep: str) -> None:
    """As another process does it between the choosing of blocks and the reading of them."""
    with opened(log) as index:
        before = index.query(Filters(grep=grep)).entries
        place = Cursor(before[0].moment, 1, before[0].at)
        second = index.query(Filters(grep=grep), 3, place).entries
        with sqlite3.connect(index.place) as other:
            other.execute("DELETE FROM lines")
        assert index.query(Filters(grep=grep)).entries == before
        assert index.query(Filters(grep=grep), 3, place).entries == second
        assert list(index.each(Filters(grep=grep))) == list(reversed(before))
        other.close()
