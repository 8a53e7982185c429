"""`egress rules show`: what it prints is a rule file that means the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from egress.cli.main import main

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hosts.yaml").write_text("version: 1\nuse: [anthropic]\nhosts:\n  a.example.com: {}\n", "utf-8")


def test_what_is_printed_can_be_used_in_its_place(capsys: Captured) -> None:
    assert main(["rules", "show"]) == 0
    text = capsys.readouterr().out
    assert "use:" not in text
    assert "# hosts.yaml:2:7 (preset anthropic:" in text
    Path("shown.yaml").write_text(text, "utf-8")
    assert main(["check", "--strict", "shown.yaml"]) == 0
    assert main(["rules", "show", "shown.yaml"]) == 0


def test_as_json_a_program_gets_every_rule_with_its_place(capsys: Captured) -> None:
    assert main(["rules", "show", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["mode"] == "enforce"
    assert data["hosts"]["a.example.com"]["allow"] == [{"id": "host", "place": "hosts.yaml:4:3"}]
    assert data["secrets"]["anthropic"]["from"] == "env:ANTHROPIC_API_KEY"


def test_rules_that_do_not_load_are_not_shown(capsys: Captured) -> None:
    Path("hosts.yaml").write_text("version: 1\nhost: {}\n", "utf-8")
    assert main(["rules", "show"]) == 1
    assert capsys.readouterr().out == ""
