"""Whose rules a proxy runs by: named ones, the user's own, and found ones only when they are trusted."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.errors import ContentError, UnreadableError
from egress.policy.rule_source import RuleSource, choose_rules, read_rules
from egress.policy.trust import TrustedFiles, UntrustedError

GOOD = "version: 1\nhosts:\n  api.example.com: {}\n"


def put(path: Path, text: str = GOOD) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return tmp_path / "config-home" / "egress"


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


@pytest.fixture
def trust(tmp_path: Path) -> TrustedFiles:
    return TrustedFiles(tmp_path / "state")


# Choosing ---------------------------------------------------------------------------------------


def test_what_is_named_comes_first(config: Path, cwd: Path) -> None:
    put(config / "hosts.yaml")
    put(cwd / "hosts.yaml")
    assert choose_rules([Path("mine.yaml")], config, cwd) == RuleSource((Path("mine.yaml"),))


@pytest.mark.parametrize("name", ["hosts.yaml", "hosts.d/a.yaml"])
def test_the_users_own_come_before_what_lies_here(config: Path, cwd: Path, name: str) -> None:
    put(config / name)
    put(cwd / "hosts.yaml")
    assert choose_rules([], config, cwd) == RuleSource((config / name.partition("/")[0],))


def test_two_sets_of_the_users_own_are_not_joined_in_silence(config: Path, cwd: Path) -> None:
    put(config / "hosts.yaml")
    put(config / "hosts.d/a.yaml")
    with pytest.raises(ContentError, match="both") as caught:
        choose_rules([], config, cwd)
    assert "--rules" in caught.value.hint


@pytest.mark.parametrize("name", ["hosts.yaml", "config/hosts.yaml"])
def test_what_lies_here_needs_trust(config: Path, cwd: Path, name: str) -> None:
    put(cwd / name)
    assert choose_rules([], config, cwd) == RuleSource((cwd / name,), needs_trust=True)


def test_without_any_rules_it_says_where_it_looked(config: Path, cwd: Path) -> None:
    with pytest.raises(UnreadableError) as caught:
        choose_rules([], config, cwd)
    assert caught.value.message.endswith(f"hosts.yaml, nor rules in {config}")
    assert caught.value.hint == "name a file with --rules, or create one with `egress init`"


# Reading ----------------------------------------------------------------------------------------


def test_named_rules_are_read(tmp_path: Path, trust: TrustedFiles) -> None:
    policy = read_rules(RuleSource((put(tmp_path / "a.yaml"),)), trust).policy
    assert policy is not None
    assert [entry.key for entry in policy.entries.values()] == ["api.example.com"]


def test_found_rules_are_read_only_when_they_are_trusted(cwd: Path, trust: TrustedFiles) -> None:
    file = put(cwd / "hosts.yaml")
    found = choose_rules([], None, cwd)
    with pytest.raises(UntrustedError):
        read_rules(found, trust)
    trust.add(file)
    assert read_rules(found, trust).policy is not None
    put(file, GOOD + "  evil.example.com: {}\n")
    with pytest.raises(UntrustedError):
        read_rules(found, trust)


def test_every_mistake_is_found(tmp_path: Path, trust: TrustedFiles) -> None:
    file = put(tmp_path / "a.yaml", "version: 1\nhots: {}\nmode: maybe\n")
    loaded = read_rules(RuleSource((file,)), trust)
    assert loaded.policy is None
    assert [finding.place.line for finding in loaded.findings] == [2, 3]


@pytest.mark.parametrize(
    "text",
    ["", "# nothing\n", "version: 1\n", "version: 1\nhosts: {}\n", "version: 1\ndeny: []\n", "rules: []\n"],
)
def test_rules_that_allow_nothing_are_refused(tmp_path: Path, trust: TrustedFiles, text: str) -> None:
    loaded = read_rules(RuleSource((put(tmp_path / "a.yaml", text),)), trust)
    assert loaded.policy is None
    assert loaded.findings


@pytest.mark.parametrize(
    "text", ["version: 1\nmode: observe\n", "version: 1\nnetworks:\n  - {cidr: 192.0.2.0/24, ports: [443]}\n"]
)
def test_rules_without_a_host_may_still_allow_something(
    tmp_path: Path, trust: TrustedFiles, text: str
) -> None:
    loaded = read_rules(RuleSource((put(tmp_path / "a.yaml", text),)), trust)
    assert loaded.policy is not None, loaded.findings


def test_a_file_that_is_no_text_is_a_finding(tmp_path: Path, trust: TrustedFiles) -> None:
    file = tmp_path / "a.yaml"
    file.write_bytes(b"\xff\xfe")
    loaded = read_rules(RuleSource((file, put(tmp_path / "b.yaml"))), trust)
    assert loaded.policy is None
    assert len(loaded.findings) == 1


def test_a_missing_file_is_an_error(tmp_path: Path, trust: TrustedFiles) -> None:
    with pytest.raises(UnreadableError):
        read_rules(RuleSource((tmp_path / "missing.yaml",)), trust)
