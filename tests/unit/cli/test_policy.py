"""`egress policy` as it is typed. What it does is in tests/proxy/test_policy_command.py."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from egress.cli import policy, proxy_choice
from egress.cli.main import main
from egress.cli.policy import _seconds_text
from egress.unix.http_connection import JsonAnswer

Captured = pytest.CaptureFixture[str]
GRANT = {"id": "g-1", "change": "allow GET https://a.example/**", "expires": 4_000_000_000, "delegation": "x"}
DELEGATION = {"id": "x", "may": ["allow"], "hosts": ["*.example"], "ttl": 5400, "profiles": 7}
SHOWN: Mapping[str, object] = {
    "sandbox": "box",
    "profile": "own",
    "profile_in_force": "chosen",
    "grants": [GRANT, "odd"],
    "delegations": [DELEGATION],
}
Asked = list[tuple[str, str, Mapping[str, object] | None]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """What the proxy is asked; it takes what is said about `box`."""
    found: Asked = []

    def ask(method: str, path: str, body: Mapping[str, object] | None, folder: Path | None) -> JsonAnswer:
        found.append((method, path, body))
        if path != "/policy/box":
            return JsonAnswer(404, {"error": "no sandbox has this name", "hint": "sandboxes: box"})
        if body is not None and body.get("host") == "evil.example":
            return JsonAnswer(403, {"error": "the rules do not delegate this", "hint": "ask for less"})
        return JsonAnswer({"GET": 200, "POST": 201, "DELETE": 200}[method], SHOWN if body is None else GRANT)

    monkeypatch.setattr(policy, "ask_proxy", ask)
    monkeypatch.setattr(proxy_choice, "ask_proxy", ask)
    monkeypatch.setattr(proxy_choice, "chosen_folders", lambda runtime_dir, run: [Path("run")])
    return found


def test_what_is_in_force_is_shown(asked: Asked, capsys: Captured) -> None:
    assert main(["policy", "box"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == ["box, profile chosen (its own is own)", "  granted"]
    assert "g-1" in said[2]
    assert str(GRANT["change"]) in said[2]
    assert [line.strip() for line in said[3:]] == [
        "may be granted",
        "x  may [allow]",
        'hosts ["*.example"]',
        "ttl at most 1h 30m",
    ]
    assert main(["policy", "box", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == SHOWN


@pytest.mark.parametrize(
    ("words", "body"),
    [
        (
            ["--allow", "GET,HEAD https://a.example/b/**", "--ttl", "2m"],
            {
                "kind": "allow",
                "host": "a.example",
                "methods": ["GET", "HEAD"],
                "paths": ["/b/**"],
                "ttl": 120,
            },
        ),
        (["--allow", "https://a.example:8443"], {"kind": "allow", "host": "a.example", "port": 8443}),
        (["--deny", "https://*.example/"], {"kind": "deny", "host": "*.example", "paths": ["/"]}),
        (["--profile", "wide", "--ttl", "60"], {"kind": "profile", "profile": "wide", "ttl": 60}),
    ],
)
def test_a_change_is_asked_for(
    words: list[str], body: dict[str, object], asked: Asked, capsys: Captured
) -> None:
    assert main(["policy", "box", *words]) == 0
    defaults: dict[str, object] = {"ttl": 600, "by": "the command line"}
    if body["kind"] != "profile":
        defaults["port"] = 443
    assert asked[1:] == [("POST", "/policy/box", defaults | body)]
    said = capsys.readouterr().out
    assert said.startswith(f"granted: {GRANT['change']} to box, for ")
    assert "`egress policy box --undo g-1` takes it back" in said


def test_a_grant_is_taken_back(asked: Asked, capsys: Captured) -> None:
    assert main(["policy", "box", "--undo", "g-1"]) == 0
    assert asked[1:] == [("DELETE", "/policy/box", {"grant": "g-1", "by": "the command line"})]
    assert capsys.readouterr().out == f"taken back: {GRANT['change']} of box\n"


@pytest.mark.parametrize(
    "words",
    [
        ["--allow", "http://a.example/"],
        ["--allow", "a.example"],
        ["--deny", "GET https://a.example/ b"],
        ["--deny", "https://user@a.example/"],
        ["--allow", "https://a.example?x"],
        ["--allow", "https://a.example", "--ttl", "soon"],
        ["--allow", "https://a.example", "--ttl", "0"],
        ["--allow", "https://a.example", "--deny", "https://a.example"],
        ["--profile", "x", "--undo", "g-1"],
    ],
)
def test_a_wrong_command_line_asks_nobody(words: list[str], asked: Asked, capsys: Captured) -> None:
    assert main(["policy", "box", *words]) == 2
    assert capsys.readouterr().err.startswith("error: ")
    assert not asked


def test_a_refusal_of_the_proxy_is_said(asked: Asked, capsys: Captured) -> None:
    assert main(["policy", "box", "--allow", "https://evil.example"]) == 1
    assert "the rules do not delegate this" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(59, "59s"), (None, "an unknown time"), ("59", "an unknown time")],
)
def test_the_type_of_a_time_is_not_assumed(seconds: object, text: str) -> None:
    assert _seconds_text(seconds) == text
