"""`egress test`: each test in its line, and a status that a pipeline can rely on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from egress.cli.main import main

Captured = pytest.CaptureFixture[str]

RULES = """\
version: 1
hosts:
  a.example.com:
    methods: [GET]
    tests:
      - GET / -> allow host
      - POST / -> {expected}
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(expected: str) -> None:
    Path("hosts.yaml").write_text(RULES.format(expected=expected), "utf-8")


def test_passing_tests_are_listed_and_counted(capsys: Captured) -> None:
    write("deny rule.none")
    assert main(["test"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ok  GET / -> allow host       hosts.yaml:6:9",
        "ok  POST / -> deny rule.none  hosts.yaml:7:9",
        "2 tests passed",
    ]


def test_a_failing_test_says_what_came_instead(capsys: Captured) -> None:
    write("allow")
    assert main(["test"]) == 1
    lines = [line.split("  ") for line in capsys.readouterr().out.splitlines()]
    assert lines[0][0] == "ok"
    assert [part.strip() for part in lines[1] if part] == [
        "FAIL",
        "POST / -> allow",
        "the decision is deny rule.none",
        "hosts.yaml:7:9",
    ]
    assert lines[2] == ["1 passed, 1 failed"]


def test_rules_without_tests_are_told_how_to_write_one(capsys: Captured) -> None:
    Path("hosts.yaml").write_text("version: 1\n", "utf-8")
    assert main(["test"]) == 0
    assert capsys.readouterr().out.startswith("no tests")


def test_as_json_a_program_gets_the_same(capsys: Captured) -> None:
    write("allow")
    assert main(["test", "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["ok"] is False
    assert data["tests"][0] == {
        "test": "GET / -> allow host",
        "place": "hosts.yaml:6:9",
        "ok": True,
        "outcome": "allow host",
        "problem": "",
        "open": False,
    }
    assert data["tests"][1]["problem"] == "the decision is deny rule.none"


def test_rules_that_do_not_load_are_not_tested(capsys: Captured) -> None:
    Path("hosts.yaml").write_text("version: 1\nhost: {}\n", "utf-8")
    assert main(["test", "--json"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "error: these rules cannot be used" in said.err


@pytest.mark.parametrize("options", [(), ("--json",)], ids=["text", "json"])
@pytest.mark.parametrize("expected", ["allow", "deny"])
def test_a_token_that_somebody_wrote_into_a_test_is_not_printed(
    expected: str, options: tuple[str, ...], capsys: Captured
) -> None:
    """What a build prints is read by many."""
    token = "ghp_" + "a1B2" * 9
    text = f"version: 1\nhosts: {{x.test: {{allow: all, tests: ['GET /?key={token} -> {expected}']}}}}\n"
    Path("hosts.yaml").write_text(text, "utf-8")
    assert main(["test", *options]) == (expected == "deny")
    out, err = capsys.readouterr()
    assert token not in out + err
    assert "(hidden: it looks like a credential)" in out
    assert "hosts.yaml:2" in out
