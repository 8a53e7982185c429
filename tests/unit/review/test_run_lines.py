"""Questions about one run never mean another, and lines are JSON that every reader takes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from egress.api.log_schema import AuditQuery
from egress.errors import UnreadableError, UsageError
from egress.review import Filters
from egress.review.entry import parse
from egress.review.run_lines import (
    encoded_line,
    follow_run,
    read_cursor,
    run_filters,
)
from egress.review.timestamps import DAY, read_moment
from tests.unit.review.run_sample import RUN, add_lines

NOW = 1_800_000_000_000_000


def test_a_run_that_is_not_known_has_no_lines() -> None:
    """An empty filter would be none, and show every run."""
    with pytest.raises(UnreadableError, match="no log of their own"):
        run_filters(AuditQuery(), "", "one", NOW)


@given(
    st.builds(AuditQuery, host=st.text(), grep=st.text(), rule=st.text(), event=st.text()), st.text("ab*[?")
)
def test_every_question_is_about_the_run_and_the_sandbox(query: AuditQuery, run: str) -> None:
    found = run_filters(query, run or "a", "one", NOW)
    assert (found.wanted["run"], found.wanted["sandbox"]) == (run or "a", "one")


def test_moments_are_read_as_on_the_command_line() -> None:
    found = run_filters(AuditQuery(since="2h", until="2027-01-01"), "a", "", NOW)
    assert found.since == NOW - 2 * 3600 * 1_000_000
    assert found.asked().keys() == {"run", "since", "until"}
    for query in (AuditQuery(since="soon"), AuditQuery(status="x")):
        with pytest.raises(UsageError) as caught:
            run_filters(query, "a", "", NOW)
        assert type(caught.value) is UsageError


def test_a_cursor_is_read_strictly() -> None:
    assert read_cursor("") is None
    assert str(read_cursor("1:2:3")) == "1:2:3"
    for text in ("1:2", "1:2:3:4", "a:b:c", "1:2:-3", "1:2:3\n", "१:२:३"):
        with pytest.raises(UsageError):
            read_cursor(text)


def _raw(path: str) -> bytes:
    fields = {"seq": 1, "time": "2026-11-20T06:03:55.507802Z", "event": "exchange", "path": path, "mac": "0"}
    return json.dumps(fields).encode()


def test_a_line_is_shown_as_it_is_unless_no_reader_would_take_it() -> None:
    plain, half = _raw("/ü"), _raw("/\udcff")
    assert encoded_line(parse(plain)) == plain
    assert json.loads(encoded_line(parse(half)).decode("utf-8"))["path"] == "/?"
    assert "mac" not in json.loads(encoded_line(parse(plain), {"mac"}))


@given(st.text(st.characters(exclude_categories=())))
def test_a_line_stays_one_line_of_json(path: str) -> None:
    for hidden in ((), ("mac",)):
        made = encoded_line(parse(_raw(path)), hidden)
        assert not set(made) & set(b"\r\n")
        assert json.loads(made.decode("utf-8"))["event"] == "exchange"


def test_a_chain_without_newer_lines_is_not_searched_for_the_last_ones(tmp_path: Path) -> None:
    add_lines(tmp_path, "r-1", "r-2")
    file, then = tmp_path / "audit-000001.jsonl", read_moment("2026-11-20T06:02:00.000001Z")
    filters = Filters(run=RUN)
    os.utime(file, ns=(0, then * 1000))
    assert len(list(follow_run(tmp_path, filters, 5, then, lambda: False))) == 2
    os.utime(file, ns=(0, (then - 2 * DAY) * 1000))
    assert list(follow_run(tmp_path, filters, 5, then, lambda: False)) == []
