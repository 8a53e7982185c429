"""`egress logs`: the lines of one sandbox, and of no other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from egress.cli.main import main
from egress.fleet import Fleet
from tests.cli.sandboxes.test_summary import exchange, refusal

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def log(fleet: Fleet, tmp_path: Path) -> Path:
    fleet.about = replace(fleet.about, audit=tmp_path)
    lines = [exchange("a.example.com", sandbox="one"), refusal("b.example.com", sandbox="two")]
    (tmp_path / "audit-000001.jsonl").write_bytes(b"".join(lines))
    return tmp_path


@pytest.mark.usefixtures("log")
def test_the_lines_of_the_one_that_was_named_are_shown(box: str, folder: Path, capsys: Captured) -> None:
    assert main(["logs", "--runtime-dir", str(folder), box]) == 0
    out = capsys.readouterr().out
    assert "a.example.com" in out
    assert "b.example.com" not in out


@pytest.mark.usefixtures("log", "fleet")
def test_one_that_is_not_there_is_named(folder: Path, capsys: Captured) -> None:
    assert main(["logs", "--runtime-dir", str(folder), "nobody"]) == 3
    assert "no sandbox is named nobody" in capsys.readouterr().err


def test_where_the_log_is_elsewhere_it_is_said(box: str, folder: Path, capsys: Captured) -> None:
    assert main(["logs", "--runtime-dir", str(folder), box]) == 3
    assert "log cannot be read by this user" in capsys.readouterr().err
