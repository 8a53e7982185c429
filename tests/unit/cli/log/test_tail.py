"""`egress log tail`: the last lines, and what comes until it is interrupted."""

from __future__ import annotations

import csv
import io
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from egress.types import Identity
from tests.unit.audit.sample import RECORD
from tests.unit.cli.log.sample import make, run
from tests.unit.review.sample import Writing


@pytest.fixture(autouse=True)
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return make(tmp_path, monkeypatch)


def test_the_last_lines_come_in_their_order() -> None:
    status, said, _ = run("tail", "-n", "2")
    assert status == 0
    name, exchange = said.splitlines()
    assert "evil.example" in name
    assert "r-6" in exchange


def test_columns_line_up_and_grow_with_what_comes(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writing = Writing(log)
    sandboxes = iter(["a", "a-sandbox-of-some-length", "x" * 40, "b"])

    def pause(_: float) -> None:
        name = next(sandboxes, "")
        if not name:
            raise KeyboardInterrupt
        writing.exchange("r-9", replace(RECORD, identity=Identity(name)))

    monkeypatch.setattr(time, "sleep", pause)
    _, said, _ = run("tail", "-f", "-n", "3")
    writing.close()
    before, later = said.splitlines()[:3], said.splitlines()[3:]
    assert len({line.index("  allow" if "  allow" in line else "  deny") for line in before}) == 1
    at = [line.index(" allow ") for line in later]
    # One that is too long pushes the rest of its own line aside, and no other.
    assert at[0] < at[1] == at[3] < at[2]


def test_many_lines_do_not_wait_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    _, together, _ = run("tail")
    monkeypatch.setattr("egress.cli.log.tail.MAX_WAITING_LINES", 1)
    _, alone, _ = run("tail")
    assert alone.split() == together.split()


def test_nothing_hangs_behind_the_last_cell() -> None:
    _, said, _ = run("tail")
    assert all(line == line.rstrip() for line in said.splitlines())


def test_filters_hold_and_no_index_is_made(log: Path) -> None:
    _, said, _ = run("tail", "--verdict", "deny", "--json")
    assert [json.loads(line)["seq"] for line in said.splitlines()] == [4, 7]
    assert not (log / "index.sqlite3").exists()


def test_as_csv_the_names_of_the_columns_stand_in_front_once() -> None:
    _, said, _ = run("tail", "--verdict", "deny", "--csv")
    assert said.count("seq,") == 1
    assert [row["seq"] for row in csv.DictReader(io.StringIO(said))] == ["4", "7"]
    with pytest.raises(AssertionError, match="two forms"):
        run("tail", "--json", "--csv")


def test_it_follows_until_it_is_interrupted(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writing = Writing(log)
    names = iter(["n-1", "n-2"])

    def pause(_: float) -> None:
        name = next(names, "")
        if not name:
            raise KeyboardInterrupt
        writing.exchange(name)

    monkeypatch.setattr(time, "sleep", pause)
    status, said, _ = run("tail", "-f", "-n", "0")
    writing.close()
    assert status == 0
    assert [line.split()[-1] for line in said.splitlines()] == ["n-1", "n-2"]
