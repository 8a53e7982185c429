"""What the commands about traffic share: what is said when a log is not whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.cli import traffic_options
from egress.errors import UnreadableError, UsageError
from tests.unit.cli.log.test_suggest import put
from tests.unit.review.drafting.sample import exchange

Captured = pytest.CaptureFixture[str]


def test_what_could_not_be_taken_in_is_said(tmp_path: Path, capsys: Captured) -> None:
    put(tmp_path, exchange(), {"event": "folded", "count": 7})
    with (tmp_path / "audit-000001.jsonl").open("a") as file:
        file.write("nonsense\n")
    assert traffic_options.gather_traffic(tmp_path, None, "1d", None).lines == 1
    said = capsys.readouterr().err
    assert "1 line of the log could not be read" in said
    assert "7 more refusals were counted" in said


def test_a_whole_log_is_read_in_silence(tmp_path: Path, capsys: Captured) -> None:
    put(tmp_path, exchange())
    traffic_options.gather_traffic(tmp_path, None, "1d", None)
    assert capsys.readouterr().err == ""


def test_a_wrong_time_and_a_missing_log_are_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        traffic_options.gather_traffic(tmp_path, None, "soon", None)
    with pytest.raises(UnreadableError):
        traffic_options.gather_traffic(tmp_path, None, "1d", None)
