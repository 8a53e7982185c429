"""`egress log show`: one request, with the line of the file that decided."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from egress.errors import ContentError
from tests.unit.cli.log.sample import make, run
from tests.unit.review.sample import Writing


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make(tmp_path, monkeypatch)


def test_every_stage_is_told() -> None:
    status, said, _ = run("show", "r-4")
    assert status == 0
    assert said.startswith("exchange r-4 at 2026-03-01T13:30:00.000123Z, line number 5, audit-000001.jsonl\n")
    assert "by rule mail.example.com#send, at hosts.yaml:21" in said
    assert "mail into header:x-api-key, github into header:authorization" in said
    assert "53 ms" in said


def test_an_id_may_begin_with_a_dash(log: Path) -> None:
    writing = Writing(log)
    writing.exchange("-hs82kX_a-Qw")
    writing.close()
    assert run("show", "-hs82kX_a-Qw")[1].startswith("exchange -hs82kX_a-Qw at ")


def test_a_connection_is_shown_line_by_line() -> None:
    assert [json.loads(line)["seq"] for line in run("show", "c-17", "--json")[1].splitlines()] == [
        2,
        3,
        4,
        5,
        8,
    ]


@pytest.mark.parametrize("name", ["r-9", "-jsX2_a9-Qw4", "", "x" * 100_000, "\x1b[2J"])
def test_an_id_that_is_not_there_is_a_finding(name: str) -> None:
    with pytest.raises(ContentError, match="no line of the log has this id"):
        run("show", name)
