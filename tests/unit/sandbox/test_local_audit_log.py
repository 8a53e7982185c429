"""The log of this process's own sandboxes, read from its files."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from egress.api.log_schema import AuditQuery
from egress.errors import UnreadableError, UsageError
from egress.fleet.protocol import FleetInfo
from egress.sandbox.local_audit_log import LocalAuditLog
from tests.unit.review.run_sample import RUN, add_lines


def _log(directory: Path) -> LocalAuditLog:
    return LocalAuditLog(FleetInfo(kind="fake", audit=directory, run=RUN))


def test_pages_follow_each_other(tmp_path: Path) -> None:
    add_lines(tmp_path, "r-1", "r-2")
    add_lines(tmp_path, "of-another", sandbox="two")
    add_lines(tmp_path, "of-another-run", run="another")
    add_lines(tmp_path, "r-3")
    log = _log(tmp_path)
    first, cursor = log.query("one", AuditQuery(limit=2))
    rest, end = log.query("one", AuditQuery(cursor=cursor))
    assert [line["request"] for line in (*first, *rest)] == ["r-3", "r-2", "r-1"]
    assert (bool(cursor), end) == (True, "")


def test_new_lines_are_followed_until_another_thread_ends_it(tmp_path: Path) -> None:
    add_lines(tmp_path, "r-1", "r-2")
    lines = _log(tmp_path).follow("one", AuditQuery(since="2020-01-01", last=1))
    assert next(lines)["request"] == "r-2"
    add_lines(tmp_path, "r-3")
    assert next(lines)["request"] == "r-3"
    ending = threading.Timer(0.1, lines.close)
    ending.start()
    assert list(lines) == []


def test_wrong_questions_are_refused_before_anything_is_read(tmp_path: Path) -> None:
    log = _log(tmp_path / "none")
    with pytest.raises(UsageError):
        log.query("one", AuditQuery(cursor="x"))
    with pytest.raises(UnreadableError):
        log.query("one", AuditQuery())
