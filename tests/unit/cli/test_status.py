"""`egress status` as it is typed. A proxy that runs is asked in tests/proxy/process/test_lifecycle.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from egress.cli import proxy_choice
from egress.cli.main import main

Captured = pytest.CaptureFixture[str]
ANSWER: dict[str, object] = {
    "version": "1.2.3",
    "pid": 42,
    "since": "2026-01-01T00:00:00Z",
    "ready": True,
    "problems": [],
    "rules": {
        "files": ["hosts.yaml"],
        "in_force": "0123456789abcdef",
        "loaded": "2026-01-02T00:00:00Z",
        "mode": "enforce",
        "hosts": 2,
        "secrets": ["tracker"],
        "variables": {"OTHER": "not set", "TRACKER": "set"},
        "refused": [],
    },
    "sandboxes": [
        {"name": "box", "profile": "small", "listeners": ["127.0.0.1:1"], "connections": 3, "grants": 1}
    ],
    "connections": 3,
    "requests": {"exchanges": 5, "with_secret": 4, "tunnels": 1},
    "killed": {"sandbox": [], "host": ["a.example.com"], "secret": []},
}


def answering(monkeypatch: pytest.MonkeyPatch, code: int, answer: dict[str, object]) -> None:
    monkeypatch.setattr(proxy_choice, "ask_proxy", lambda *_: (code, answer))


def test_it_is_told_in_a_few_lines(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    answering(monkeypatch, 200, ANSWER)
    assert main(["status"]) == 0
    assert [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()] == [
        ["ready,", "pid 42, version 1.2.3, since 2026-01-01T00:00:00Z"],
        ["rules", "hosts.yaml: 2 hosts, 1 secret, mode enforce"],
        ["in", "force since 2026-01-02T00:00:00Z (0123456789ab)"],
        ["variables:", "OTHER not set, TRACKER set"],
        ["sandbox", "box: 127.0.0.1:1; profile small; 3 connections; 1 grant"],
        ["connections", "3"],
        ["requests", "5 exchanges, 4 with secret, 1 tunnel"],
        ["killed", "the host a.example.com"],
    ]


def test_what_is_kept_revoked_is_told(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    killed = {"sandbox": [], "host": ["a.example.com"], "secret": ["a.example.com"]}
    kept = {"host": [], "secret": ["a.example.com"]}
    answering(monkeypatch, 200, {**ANSWER, "killed": killed, "kept": kept})
    assert main(["status"]) == 0
    assert [line.split(maxsplit=1)[1] for line in capsys.readouterr().out.splitlines()[-2:]] == [
        "the host a.example.com",
        "the secret a.example.com, kept after a restart",
    ]


def test_what_is_wrong_is_told_and_is_its_status(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    rules = {"files": ["hosts.yaml"], "refused": ["hosts.yaml:2:1: unknown key"]}
    box = {"name": "box", "failed": ["cannot listen on x"], "authority_lacks": ["new.example.com"]}
    answer = {
        **ANSWER,
        "ready": False,
        "problems": ["no listener is open"],
        "rules": rules,
        "sandboxes": [box],
    }
    answering(monkeypatch, 200, answer)
    assert main(["status"]) == 1
    said = capsys.readouterr().out
    assert said.startswith("not ready, pid 42")
    for part in (
        "problem: no listener is open",
        "refused since: hosts.yaml:2:1: unknown key",
        "box: no listener; 0 connections",
        "cannot listen on x",
        "not permitted to sign for new.example.com",
    ):
        assert part in said


def test_programs_get_all_of_it(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    answering(monkeypatch, 200, ANSWER)
    assert main(["status", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == ANSWER
    answering(monkeypatch, 200, {**ANSWER, "ready": False})
    assert main(["status", "--json"]) == 1


@pytest.mark.parametrize(
    ("code", "answer", "found", "said"),
    [(404, {}, 3, "still starting"), (500, {"error": "it broke", "hint": "mend it"}, 1, "it broke")],
)
def test_an_answer_that_is_none_is_an_error(
    code: int,
    answer: dict[str, object],
    found: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: Captured,
) -> None:
    answering(monkeypatch, code, answer)
    assert main(["status"]) == found
    assert said in capsys.readouterr().err


def test_an_answer_of_another_shape_breaks_nothing(monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    answering(monkeypatch, 200, {"ready": True, "rules": [], "sandboxes": {"a": 1}, "requests": None})
    assert main(["status"]) == 0
    assert "Traceback" not in capsys.readouterr().err


def test_without_a_proxy_it_says_where_it_asked(capsys: Captured, tmp_path: Path) -> None:
    assert main(["status", "--runtime-dir", str(tmp_path / ("x" * 100))]) == 3
    assert "no proxy is running" in capsys.readouterr().err


def test_replicas_that_are_not_compared_with_are_told(
    monkeypatch: pytest.MonkeyPatch, capsys: Captured
) -> None:
    silent = ["10.0.0.2 (connection refused)"]
    answering(monkeypatch, 200, {**ANSWER, "replicas": {"compared": 1, "silent": silent}})
    # It serves as before.
    assert main(["status"]) == 0
    lines = [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]
    assert ["replicas", "compared with 1 other"] in lines
    assert ["not", "compared with 10.0.0.2 (connection refused)"] in lines
