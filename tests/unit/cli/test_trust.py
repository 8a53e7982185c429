"""`egress trust`: what is trusted is said, listed, and forgotten."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from egress.cli.main import main

Captured = pytest.CaptureFixture[str]
GOOD = "version: 1\nhosts:\n  api.example.com: {}\n"
RUNS = "version: 1\nsecrets:\n  a: {from: {command: [pass, a]}, hosts: [api.example.com]}\n" + GOOD[11:]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EGRESS_STATE_DIR", str(tmp_path / "state"))
    Path("hosts.yaml").write_text(GOOD, encoding="utf-8")


def test_a_file_is_trusted_listed_and_forgotten(capsys: Captured) -> None:
    assert main(["trust", "--list"]) == 0
    assert capsys.readouterr().out == "no file is trusted\n"
    assert main(["trust", "hosts.yaml"]) == 0
    assert capsys.readouterr().out.startswith("trusted hosts.yaml: 1 host, 0 secrets ")
    assert main(["trust", "--list"]) == 0
    assert capsys.readouterr().out.startswith(str(Path("hosts.yaml").resolve()))
    assert main(["trust", "--json"]) == 0
    assert [item["file"] for item in json.loads(capsys.readouterr().out)] == [
        str(Path("hosts.yaml").resolve())
    ]
    assert main(["trust", "--forget", "hosts.yaml"]) == 0
    assert "is no longer trusted" in capsys.readouterr().out
    assert main(["trust", "--forget", "hosts.yaml"]) == 0
    assert capsys.readouterr().out == "hosts.yaml was not trusted\n"


def test_programs_that_the_rules_would_run_are_counted(capsys: Captured) -> None:
    Path("hosts.yaml").write_text(RUNS, encoding="utf-8")
    assert main(["trust", "hosts.yaml"]) == 0
    assert "1 secret, 1 program to run" in capsys.readouterr().out


def test_a_file_with_a_mistake_is_not_trusted(capsys: Captured) -> None:
    Path("hosts.yaml").write_text("version: 1\nhots: {}\n", encoding="utf-8")
    assert main(["trust", "hosts.yaml"]) == 1
    assert "hosts.yaml:2:1" in capsys.readouterr().err
    main(["trust", "--list"])
    assert capsys.readouterr().out == "no file is trusted\n"


@pytest.mark.parametrize(
    ("words", "status"),
    [([], 2), (["--list", "hosts.yaml"], 2), (["--list", "--forget"], 2), (["missing.yaml"], 3), (["."], 3)],
)
def test_what_cannot_be_trusted_is_said(words: list[str], status: int, capsys: Captured) -> None:
    assert main(["trust", *words]) == status
    assert "hint: " in capsys.readouterr().err


def test_another_folder_for_the_list(tmp_path: Path, capsys: Captured) -> None:
    assert main(["trust", "--state-dir", str(tmp_path / "other"), "hosts.yaml"]) == 0
    capsys.readouterr()
    main(["trust", "--list"])
    assert capsys.readouterr().out == "no file is trusted\n"


def test_a_list_that_others_could_exchange_is_not_used(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state").chmod(0o770)
    for words in (["--list"], ["hosts.yaml"]):
        assert main(["trust", *words]) == 3
        assert "is open to other users" in capsys.readouterr().err
