"""`egress log stats`: numbers for people and for programs."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from egress.cli.log.stats import BY, duration
from egress.types import Identity
from tests.unit.audit.sample import RECORD
from tests.unit.cli.log.sample import make, run
from tests.unit.review.sample import Writing


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make(tmp_path, monkeypatch)


def test_it_adds_up_by_sandbox() -> None:
    status, said, _ = run("stats")
    assert status == 0
    head, agent, bob, everything = (line.split() for line in said.splitlines())
    assert head[:3] == ["sandbox", "requests", "denied"]
    assert (agent[:3], bob[:3], everything[:3]) == (
        ["agent-1", "6", "2"],
        ["bob", "1", "0"],
        ["all", "7", "2"],
    )


@pytest.mark.parametrize("by", BY)
def test_the_parts_of_anything_are_told_as_json(by: str) -> None:
    told = json.loads(run("stats", "--by", by, "--json")[1])
    assert told["total"]["requests"] == 7
    assert sum(row["requests"] for row in told["rows"]) >= 4


def test_the_parts_are_told_as_a_table() -> None:
    rows = list(csv.DictReader(io.StringIO(run("stats", "--csv")[1])))
    assert [(row["sandbox"], row["requests"], row["denied"]) for row in rows] == [
        ("agent-1", "6", "2"),
        ("bob", "1", "0"),
    ]
    hosts = list(csv.DictReader(io.StringIO(run("stats", "--by", "host", "--top", "1", "--csv")[1])))
    assert [row["host"] for row in hosts] == ["api.github.com", "others"]


def test_no_name_in_a_table_is_a_formula(log: Path) -> None:
    writing = Writing(log.parent / "other")
    writing.exchange("r-1", replace(RECORD, identity=Identity("=1+1", "coding")))
    writing.close()
    rows = list(csv.DictReader(io.StringIO(run("stats", "--dir", str(log.parent / "other"), "--csv")[1])))
    assert [row["sandbox"] for row in rows] == ["'=1+1"]


def test_two_forms_at_once_are_refused() -> None:
    with pytest.raises(AssertionError, match="two forms"):
        run("stats", "--csv", "--json")


def test_what_is_beyond_the_top_is_told_together() -> None:
    said = run("stats", "--by", "host", "--top", "1")[1]
    assert [line.split()[0] for line in said.splitlines()] == ["host", "api.github.com", "others", "all"]


def test_durations_are_short() -> None:
    assert [duration(number) for number in (0, 999, 12_345, 9_999_999, 61_000_000)] == [
        "",
        "999 us",
        "12 ms",
        "10000 ms",
        "61 s",
    ]
