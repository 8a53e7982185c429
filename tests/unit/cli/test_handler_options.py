"""`--handlers` of `egress test` and `egress explain`: handlers without a proxy."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from egress.cli.main import main

RULES = """\
version: 1
hosts:
  api.example.com:
    allow:
      - {id: read, methods: [GET], handler: {use: one}}
    tests:
      - GET /a -> allow read
      - GET /drafts -> deny handler.denied
"""
FILE = """\
from egress.handlers import Allow, Deny, handler

@handler
def one(request, context):
    return Deny("drafts stay here") if request.path == "/drafts" else Allow()
"""
URL = "https://api.example.com"


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hosts.yaml").write_text(RULES)
    Path("handlers.py").write_text(FILE)


def test_tests_that_need_a_handler_are_told_and_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test"]) == 0
    shown = capsys.readouterr().out
    assert "1 test passed" in shown
    assert "1 test not run: name the file of the handlers with --handlers" in shown
    assert main(["test", "--handlers", "handlers.py"]) == 0
    assert "2 tests passed" in capsys.readouterr().out
    Path("handlers.py").write_text(FILE.replace("/drafts", "/never"))
    assert main(["test", "--handlers", "handlers.py"]) == 1
    assert "the handler one allows it" in capsys.readouterr().out


def test_explain_names_the_handler_and_asks_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "GET", f"{URL}/drafts"]) == 0
    assert "would be called" in capsys.readouterr().out
    asking = ["explain", "GET", f"{URL}/drafts", "--handlers", "handlers.py", "--run"]
    assert main(asking) == 1
    assert "denies: drafts stay here" in capsys.readouterr().out
    assert main([*asking, "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert (data["handler"], data["handler_run"]["code"]) == ("one", "handler.denied")
    assert main(["explain", "GET", f"{URL}/a", "--handlers", "handlers.py", "--run"]) == 0


def test_to_run_needs_the_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "GET", f"{URL}/a", "--run"]) == 2
    assert "--handlers" in capsys.readouterr().err
    assert main(["test", "--handlers", "none.py"]) == 3
