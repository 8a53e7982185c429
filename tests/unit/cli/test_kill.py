"""`egress kill` as it is typed. What it does is in tests/proxy/test_withdrawal.py."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from egress.cli import kill
from egress.cli.main import main

Captured = pytest.CaptureFixture[str]
Answer = tuple[int, dict[str, object]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, object]]:
    """What the proxy is asked; it answers as it would when `answers` says nothing else."""
    found: list[Mapping[str, object]] = []

    def ask(method: str, path: str, body: Mapping[str, object], folder: Path | None) -> Answer:
        found.append(body)
        if body["name"] == "ambiguous":
            return 409, {"error": "the name stands for a host and for a secret", "hint": "report its"}
        if body["name"] == "broken":
            return 500, {"error": "it broke"}
        kind = body["kind"] or "host"
        told = {"kind": kind, "name": body["name"], "connections": 2, "known": body["name"] != "free"}
        return 200, told if body["name"] == "old" else {**told, "kept": body.get("keep", False)}

    monkeypatch.setattr(kill, "ask_proxy", ask)
    return found


@pytest.mark.parametrize("kind", ["sandbox", "host", "secret"])
def test_what_it_is_can_be_said(kind: str, asked: list[Mapping[str, object]], capsys: Captured) -> None:
    assert main(["kill", "x", f"--{kind}"]) == 0
    assert asked == [{"name": "x", "kind": kind, "undo": False}]
    said = capsys.readouterr().out
    assert said.startswith(f"revoked: the {kind} x, 2 connections closed\n")
    assert "until `egress kill --undo`" in said


def test_it_is_given_back(asked: list[Mapping[str, object]], capsys: Captured) -> None:
    assert main(["kill", "--undo", "x"]) == 0
    assert asked == [{"name": "x", "kind": None, "undo": True}]
    assert capsys.readouterr().out == "restored: the host x\n"
    assert main(["kill", "--undo", "free"]) == 0
    assert capsys.readouterr().out == "the host free was not revoked\n"


@pytest.mark.parametrize(("name", "status"), [("ambiguous", 2), ("broken", 1)])
def test_what_the_proxy_objects_to_is_said(
    name: str, status: int, asked: list[Mapping[str, object]], capsys: Captured
) -> None:
    assert main(["kill", name]) == status
    assert capsys.readouterr().err.startswith("error: ")


def test_it_is_told_to_programs(asked: list[Mapping[str, object]], capsys: Captured) -> None:
    assert main(["kill", "x", "--json"]) == 0
    assert '"connections": 2' in capsys.readouterr().out


def test_it_can_be_kept(asked: list[Mapping[str, object]], capsys: Captured) -> None:
    assert main(["kill", "x", "--secret", "--keep"]) == 0
    assert asked == [{"name": "x", "kind": "secret", "undo": False, "keep": True}]
    assert capsys.readouterr().out.endswith("it is not injected until `egress kill --undo`\n")


def test_a_proxy_that_keeps_nothing_is_not_believed(
    asked: list[Mapping[str, object]], capsys: Captured
) -> None:
    """One of an older version answers as if nothing more had been asked of it."""
    assert main(["kill", "old", "--host", "--keep"]) == 1
    said = capsys.readouterr()
    assert "until `egress kill --undo` or a restart" in said.out
    assert "until the next restart only" in said.err
    assert main(["kill", "old", "--host", "--keep", "--json"]) == 1


def test_nothing_is_kept_and_undone_at_once(asked: list[Mapping[str, object]]) -> None:
    assert main(["kill", "x", "--undo", "--keep"]) == 2
    assert asked == []
