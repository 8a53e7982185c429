"""What the commands about rules share."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from egress.cli import rule_options
from egress.errors import ContentError, UnreadableError

GOOD = "version: 1\nhosts:\n  a.example: {}\n"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_now_is_a_whole_second() -> None:
    assert isinstance(rule_options.now(), int)
    assert abs(rule_options.now() - time.time()) < 60  # noqa: TID251 - it is this clock that is asked about


def test_reads_the_files_that_are_named() -> None:
    Path("a.yaml").write_text(GOOD, "utf-8")
    paths, policy = rule_options.policy([Path("a.yaml")])
    assert paths == [Path("a.yaml")]
    assert [entry.key for entry in policy.entries.values()] == ["a.example"]


def test_names_of_default_files_are_short() -> None:
    Path("config").mkdir()
    Path("config/hosts.yaml").write_text(GOOD, "utf-8")
    paths, loaded = rule_options.read(())
    assert [str(path) for path in paths] == ["config/hosts.yaml"]
    assert loaded.policy is not None


def test_without_rules_there_is_nothing_to_go_on_with() -> None:
    with pytest.raises(UnreadableError):
        rule_options.read(())


def test_rules_with_a_mistake_stop_the_command_after_showing_it(capsys: pytest.CaptureFixture[str]) -> None:
    """On the error stream: what `--json` prints must stay JSON."""
    Path("hosts.yaml").write_text("version: 1\nhost: {}\n", "utf-8")
    with pytest.raises(ContentError, match="cannot be used"):
        rule_options.policy(())
    said = capsys.readouterr()
    assert said.err.startswith("hosts.yaml:2:1: error: unknown key `host`\n  hint: did you mean `hosts`?")
    assert said.out == ""
