"""`egress explain --sandbox` decides as the proxy of that sandbox does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from egress.cli import proxy_choice
from egress.cli.main import main
from egress.cli.proxy_choice import SandboxProxy
from egress.unix.http_connection import JsonAnswer
from tests.cli.command import put
from tests.unit.rules.rule_samples import policy, source

Captured = pytest.CaptureFixture[str]
RULES = """\
version: 1
hosts: {a.example: {}}
profiles: {default: {hosts: []}, wide: {hosts: [a.example]}}
delegate: [{id: x, to: {sandboxes: [box]}, ttl: 1h, hosts: [b.example], profiles: [wide]}]
"""
GRANT = {"id": "g-1", "kind": "allow", "host": "b.example", "port": 443, "ttl": 60, "expires": 4_000_000_000}
DENY = GRANT | {"kind": "deny", "paths": ["/no/**"], "id": "g-2"}
PROFILE = {"id": "g-3", "kind": "profile", "profile": "wide", "ttl": 60, "expires": 4_000_000_000}


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, object]:
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "hosts.yaml", RULES)
    told: dict[str, object] = {"profile": None, "policy": policy(source(RULES)).digest, "grants": []}

    def proxy_of(sandbox: str, runtime_dir: Path | None, run: str | None) -> SandboxProxy:
        assert sandbox == "box"
        answer: Mapping[str, object] = told
        return SandboxProxy(runtime_dir, JsonAnswer(200, answer))

    monkeypatch.setattr(proxy_choice, "proxy_of", proxy_of)
    return told


def explained(capsys: Captured, url: str) -> dict[str, object]:
    status = main(["explain", "GET", url, "--sandbox", "box", "--json"])
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    assert status == (0 if found["verdict"] == "allow" else 1)
    return found


def test_grants_and_a_chosen_profile_count(answer: dict[str, object], capsys: Captured) -> None:
    assert explained(capsys, "https://b.example/")["code"] == "host.unknown"
    assert explained(capsys, "https://a.example/")["code"] == "profile.excluded"
    answer["grants"] = [GRANT, DENY, PROFILE]
    found = explained(capsys, "https://b.example/")
    assert (found["rule"], found["delegation"], found["inject"]) == ("grant#g-1", "x", [])
    assert found["profile"] == "wide"
    denied = explained(capsys, "https://b.example/no/1")
    assert (denied["code"], denied["rule"]) == ("rule.denied", "grant#g-2")
    assert "--undo g-2" in str(denied["hint"])
    assert explained(capsys, "https://a.example/")["verdict"] == "allow"
    assert main(["explain", "GET", "https://b.example/", "--sandbox", "box"]) == 0
    assert "by the delegation x" in capsys.readouterr().out


def test_other_rules_than_those_of_the_proxy_are_told(answer: dict[str, object], capsys: Captured) -> None:
    answer["policy"] = "another"
    main(["explain", "GET", "https://a.example/", "--sandbox", "box"])
    assert "the proxy does not decide by these files alone" in capsys.readouterr().err
    answer["grants"] = [GRANT | {"host": "c.example"}]
    assert main(["explain", "GET", "https://a.example/", "--sandbox", "box"]) == 1
    assert "does not fit these rules" in capsys.readouterr().err


def test_a_running_sandbox_has_its_profile(answer: dict[str, object], capsys: Captured) -> None:
    answer["profile"] = "wide"
    assert explained(capsys, "https://a.example/")["verdict"] == "allow"
    assert main(["explain", "GET", "https://a.example/", "--sandbox", "box", "--profile", "wide"]) == 2


def test_a_running_sandbox_has_its_parameters(answer: dict[str, object], capsys: Captured) -> None:
    hosts = 'hosts: {a.example: {paths: ["/{param.repo}"]}}'
    rules = f'version: 1\nparameters: {{repo: {{pattern: "acme/[a-z]+"}}}}\n{hosts}\n'
    put(Path("hosts.yaml"), rules)
    answer["policy"] = policy(source(rules)).digest
    assert explained(capsys, "https://a.example/acme/site")["code"] == "host.closed"
    answer["params"] = {"repo": "acme/site"}
    assert explained(capsys, "https://a.example/acme/site")["verdict"] == "allow"
    assert explained(capsys, "https://a.example/acme/other")["code"] == "rule.none"
    words = ["explain", "GET", "https://a.example/", "--sandbox", "box", "--param", "repo=acme/site"]
    assert main(words) == 2
