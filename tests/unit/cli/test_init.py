"""`egress init` in one process: where it writes, what it says, what it refuses."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from egress import environment
from egress.cli import init_template
from egress.cli.main import main
from egress.rules.language.schema import schema_text

Captured = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty home and folder, and an environment without a token."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setattr(environment, "read_environment", lambda: {"GITHUB_TOKEN": "sentinel-9f3a"})
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(Path, "home", lambda: tmp_path)


def test_writes_rules_that_check_and_test_are_content_with(capsys: Captured) -> None:
    assert main(["init"]) == 0
    said = capsys.readouterr()
    assert said.out.splitlines()[0] == "wrote hosts.yaml, hosts.schema.json"
    assert "  github: GITHUB_TOKEN, set in the environment" in said.out
    assert "next: read it, then `egress check hosts.yaml`" in said.out
    assert main(["check", "--strict"]) == 0
    assert main(["test"]) == 0
    assert "sentinel" not in said.out + said.err + Path("hosts.yaml").read_text("utf-8")
    assert stat.S_IMODE(Path("hosts.yaml").stat().st_mode) == 0o644


def test_writes_into_config_where_there_is_one() -> None:
    Path("config").mkdir()
    assert main(["init"]) == 0
    assert Path("config/hosts.yaml").is_file()
    assert not Path("hosts.yaml").exists()


def test_puts_the_schema_beside_the_rules_and_names_it_in_the_first_line() -> None:
    assert main(["init"]) == 0
    assert Path("hosts.schema.json").read_text("utf-8") == schema_text()
    first = Path("hosts.yaml").read_text("utf-8").splitlines()[0]
    assert first == "# yaml-language-server: $schema=./hosts.schema.json"


def test_leaves_a_schema_that_is_there_alone() -> None:
    Path("hosts.schema.json").write_text("{}", "utf-8")
    assert main(["init"]) == 0
    assert Path("hosts.schema.json").read_text("utf-8") == "{}"


def test_does_not_overwrite_unless_told_to(capsys: Captured) -> None:
    Path("hosts.yaml").write_text("mine\n", "utf-8")
    assert main(["init"]) == 1
    said = capsys.readouterr()
    assert said.err.startswith("error: hosts.yaml exists and was not changed\nhint: use --force")
    assert Path("hosts.yaml").read_text("utf-8") == "mine\n"
    assert not Path("hosts.schema.json").exists()
    assert main(["init", "--force"]) == 0
    assert "version: 1" in Path("hosts.yaml").read_text("utf-8")


def test_writes_where_it_is_told_to() -> None:
    assert main(["init", "--output", "other.yaml"]) == 0
    assert Path("other.yaml").is_file()


def test_prints_the_same_and_writes_nothing(capsys: Captured, tmp_path: Path) -> None:
    assert main(["init", "--print"]) == 0
    printed = capsys.readouterr().out
    assert list(Path().iterdir()) == []
    assert main(["init"]) == 0
    assert Path("hosts.yaml").read_text("utf-8") == init_template.SCHEMA_LINE + printed


@pytest.mark.parametrize("target", ["no/hosts.yaml", "."])
def test_a_target_that_cannot_be_written_is_status_three(target: str, capsys: Captured) -> None:
    assert main(["init", "--output", target]) == 3
    assert capsys.readouterr().err.startswith("error: ")


def test_refuses_to_write_rules_that_are_not_sound(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of being unsound: rules that do not load, and a test that does not pass."""
    for broken in ("version: 1\nhosts: nonsense\n", "version: 1\ntests: [GET https://a.example/ -> allow]\n"):
        monkeypatch.setattr(init_template, "text", lambda *_, text=broken, **__: text)
        assert main(["init"]) == 1
        assert "error: the generated rules are not valid" in capsys.readouterr().err
        assert list(Path().iterdir()) == []


def test_says_so_when_nothing_was_found(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "read_environment", dict)
    assert main(["init"]) == 0
    assert "nothing useful found: the file allows nothing yet" in capsys.readouterr().out
    assert main(["check", "--strict"]) == 0
    assert main(["test"]) == 0


def test_a_user_without_a_home_is_told_what_to_set(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", homeless)
    assert main(["init"]) == 3
    assert "hint: set HOME" in capsys.readouterr().err


def test_package_managers_are_asked(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    go = tmp_path / "bin/go"
    go.write_text("#!/bin/sh\necho https://modules.example.com\necho off\n", encoding="utf-8")
    go.chmod(0o755)
    environ = {"PATH": str(tmp_path / "bin")}
    monkeypatch.setattr(environment, "read_environment", lambda: environ)
    assert main(["init", "--offline"]) == 0
    assert "  go: modules.example.com, from `go env GOPROXY`" in capsys.readouterr().out
    assert "\n  - go-proxy: { proxies: [modules.example.com] }\n" in Path("hosts.yaml").read_text("utf-8")
    assert main(["check", "--strict"]) == 0
    assert main(["test"]) == 0
