"""`egress serve` up to the moment at which it serves; from there on see tests/proxy/test_server.py."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from egress.cli.main import main
from egress.cli.serve import serve
from egress.proxy.settings import Settings, flag

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR", "EGRESS_RULES", "EGRESS_DRAIN"):
        monkeypatch.delenv(name, raising=False)


def test_every_setting_is_an_option() -> None:
    options = {option for item in serve.params if isinstance(item, click.Option) for option in item.opts}
    assert options >= {flag(name) for name in Settings.model_fields}


def test_the_settings_in_force_are_shown_with_where_they_come_from(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EGRESS_DRAIN", "5s")
    assert main(["serve", "--settings", "--sandbox", "box"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["--drain", "5s", "environment"] in rows
    assert ["--sandbox", "box", "flag"] in rows
    assert ["--listen", "127.0.0.1:3128", "default"] in rows
    assert main(["serve", "--settings", "--json", "--no-container"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["container"] == {"value": "no", "from": "flag"}
    assert set(found) == {flag(name)[2:] for name in Settings.model_fields}


def test_a_setting_that_cannot_be_is_named(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["serve", "--listen", "nowhere"]) == 2
    assert capsys.readouterr().err.startswith("error: --listen: ")
    monkeypatch.setenv("EGRESS_DRAIN", "soon")
    assert main(["serve"]) == 2
    assert capsys.readouterr().err.startswith("error: EGRESS_DRAIN: ")


def test_without_rules_it_says_where_it_looked(capsys: Captured, tmp_path: Path) -> None:
    assert main(["serve"]) == 3
    said = capsys.readouterr().err
    assert str(tmp_path / ".config/egress") in said
    assert "--rules" in said


def test_rules_with_a_mistake_are_shown_as_check_shows_them(capsys: Captured) -> None:
    Path("hosts.yaml").write_text("version: 1\nhots: {}\n", encoding="utf-8")
    main(["check", "hosts.yaml"])
    finding = capsys.readouterr().out.splitlines()[0]
    assert main(["serve", "--rules", "hosts.yaml"]) == 1
    assert finding in capsys.readouterr().err


def test_rules_that_merely_lie_here_are_not_used(capsys: Captured) -> None:
    Path("hosts.yaml").write_text("version: 1\nhosts:\n  a.example.com: {}\n", encoding="utf-8")
    assert main(["serve"]) == 1
    assert "egress trust hosts.yaml" in capsys.readouterr().err
