"""`egress check`: what it finds, what it counts, and its status."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from egress.cli.main import main

Captured = pytest.CaptureFixture[str]

GOOD = """\
version: 1
secrets:
  token: {from: "env:TOKEN", hosts: [a.example.com]}
hosts:
  a.example.com:
    allow: all
    inject: [{bearer: token}]
    tests:
      - GET / -> allow host, inject token
  b.example.com: {}
networks:
  - {cidr: 192.0.2.0/24, allow: all}
profiles:
  default: {hosts: [a.example.com]}
"""
NOTHING = "nothing is allowed, so `egress serve` will not start with it"
DOUBTFUL = 'version: 1\nhosts:\n  "*.github.io": {}\n'
WRONG = 'version: 1\nhosts:\n  a.example.com: {alow: []}\n  "*.github.io": {methods: [get]}\n'


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write(text: str, name: str = "hosts.yaml") -> None:
    Path(name).write_text(text, "utf-8")


def test_sound_rules_are_one_line_that_says_what_there_is(capsys: Captured) -> None:
    write(GOOD)
    assert main(["check"]) == 0
    assert capsys.readouterr().out == "ok hosts.yaml: 2 hosts, 1 network, 1 secret, 1 profile, 1 test\n"


def test_rules_that_say_nothing_allow_nothing(capsys: Captured) -> None:
    write("version: 1\n")
    assert main(["check"]) == 0
    assert capsys.readouterr().out == f"ok hosts.yaml: {NOTHING}\n"


def test_rules_with_tests_alone_allow_nothing_either(capsys: Captured) -> None:
    write("version: 1\ntests:\n  - GET https://a.example.com/ -> deny host.unknown\n")
    assert main(["check"]) == 0
    assert capsys.readouterr().out == f"ok hosts.yaml: 1 test, {NOTHING}\n"


def test_every_mistake_comes_in_one_run(capsys: Captured) -> None:
    write(WRONG)
    assert main(["check"]) == 1
    said = capsys.readouterr().out
    assert "hosts.yaml:3:19: error: unknown key `alow`\n  hint: did you mean `allow`?\n" in said
    assert "hosts.yaml:4:29: error: `get` must be upper case\n  hint: write GET\n" in said
    assert said.endswith("2 errors in hosts.yaml\n")


def test_a_warning_is_shown_and_is_no_failure_unless_it_is_to_be_one(capsys: Captured) -> None:
    write(DOUBTFUL)
    assert main(["check"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("hosts.yaml:3:3: warning: `*.github.io` covers names")
    assert said.endswith("ok hosts.yaml: 1 host (1 warning)\n")
    assert main(["check", "--strict"]) == 1
    assert capsys.readouterr().out.endswith("1 warning in hosts.yaml\n")


def test_several_files_are_one_policy(capsys: Captured) -> None:
    write("version: 1\nhosts: {a.example.com: {}}\n", "a.yaml")
    write("version: 1\nhosts: {b.example.com: {}}\n", "b.yaml")
    assert main(["check", "a.yaml", "b.yaml"]) == 0
    assert capsys.readouterr().out == "ok a.yaml, b.yaml: 2 hosts\n"


def test_as_json_a_program_gets_the_same(capsys: Captured) -> None:
    write(WRONG)
    assert main(["check", "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["ok"] is False
    assert data["files"] == ["hosts.yaml"]
    assert data["digest"] is None
    assert data["findings"][0] == {
        "file": "hosts.yaml",
        "line": 3,
        "column": 19,
        "via": "",
        "severity": "error",
        "message": "unknown key `alow`",
        "hint": "did you mean `allow`?",
    }


def test_as_json_sound_rules_have_a_digest(capsys: Captured) -> None:
    write(GOOD)
    assert main(["check", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["ok"] is True
    assert len(data["digest"]) == 64
    assert data["findings"] == []
    assert main(["check", "--json", "--strict"]) == 0


def test_a_missing_file_is_status_three(capsys: Captured) -> None:
    assert main(["check", "missing.yaml"]) == 3
    assert capsys.readouterr().err.startswith("error: file not found: missing.yaml\nhint: ")


def test_no_rules_at_all_is_status_three(capsys: Captured) -> None:
    assert main(["check"]) == 3
    assert "create one with `egress init`" in capsys.readouterr().err


def test_a_credential_in_a_rule_file_is_found_and_not_shown(capsys: Captured) -> None:
    value = "ghp_" + "0123456789abcdefghijABCDEFGHIJ012345"
    write(f"version: 1\nsecrets:\n  token: {{from: {value}, hosts: [a.example.com]}}\n{value}: 1\n")
    assert main(["check"]) == 1
    said = capsys.readouterr()
    assert "looks like a credential" in said.out
    assert value not in said.out + said.err


def test_a_notice_is_said_each_time_and_is_never_a_failure(capsys: Captured) -> None:
    write("version: 1\nuse:\n  - github: {graphql: read-write}\n")
    for arguments in (["check"], ["check", "--strict"]):
        assert main(arguments) == 0
        said = capsys.readouterr().out
        assert said.startswith("hosts.yaml:3:5: notice: github, graphql: read-write: GraphQL is not read.")
        assert said.endswith(" (1 notice)\n")
    main(["check", "--json"])
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert finding["severity"] == "notice"
