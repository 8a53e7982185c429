"""A rule file is trusted by its path and its very text, and by nothing else."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from egress.errors import UnreadableError
from egress.policy.rule_file_reader import read_text
from egress.policy.trust import TRUST_FILE_NAME, TrustedFiles, UntrustedError

TEXT = "version: 1\nhosts:\n  api.example.com: {}\n"


@pytest.fixture
def trust(tmp_path: Path) -> TrustedFiles:
    return TrustedFiles(tmp_path / "state" / "egress")


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "repository" / "hosts.yaml"
    path.parent.mkdir()
    path.write_text(TEXT, encoding="utf-8")
    return path


def test_a_trusted_file_passes(trust: TrustedFiles, rules: Path) -> None:
    assert trust.add(rules) == hashlib.sha256(rules.read_bytes()).hexdigest()
    trust.check(rules, read_text(rules))


def test_a_file_nobody_spoke_of_does_not_and_the_cure_is_named(trust: TrustedFiles, rules: Path) -> None:
    with pytest.raises(UntrustedError) as caught:
        trust.check(rules, TEXT)
    assert f"egress trust {rules}" in caught.value.hint


def test_a_changed_file_must_be_trusted_again(trust: TrustedFiles, rules: Path) -> None:
    trust.add(rules)
    with pytest.raises(UntrustedError, match="has changed"):
        trust.check(rules, TEXT + "# one more line\n")


def test_the_same_text_elsewhere_is_another_file(trust: TrustedFiles, rules: Path, tmp_path: Path) -> None:
    """A relative command in it would be another program."""
    trust.add(rules)
    copy = tmp_path / "hosts.yaml"
    copy.write_text(TEXT, encoding="utf-8")
    with pytest.raises(UntrustedError):
        trust.check(copy, TEXT)


def test_a_link_stands_for_what_it_points_to(trust: TrustedFiles, rules: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.yaml"
    link.symlink_to(rules)
    trust.add(link)
    trust.check(rules, TEXT)
    other = tmp_path / "other.yaml"
    other.write_text(TEXT, encoding="utf-8")
    link.unlink()
    link.symlink_to(other)
    with pytest.raises(UntrustedError):
        trust.check(link, TEXT)


def test_what_is_forgotten_is_trusted_no_longer(trust: TrustedFiles, rules: Path) -> None:
    trust.add(rules)
    assert trust.forget(rules)
    assert not trust.forget(rules)
    assert trust.all() == {}
    with pytest.raises(UntrustedError):
        trust.check(rules, TEXT)


def test_several_files_stand_beside_each_other(trust: TrustedFiles, rules: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(TEXT, encoding="utf-8")
    trust.add(rules)
    trust.add(other)
    assert set(trust.all()) == {str(rules.resolve()), str(other.resolve())}


def test_the_list_is_for_its_owner_alone(trust: TrustedFiles, rules: Path) -> None:
    trust.add(rules)
    assert (trust.folder / TRUST_FILE_NAME).stat().st_mode & 0o777 == 0o600
    assert trust.folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in trust.folder.iterdir()] == [TRUST_FILE_NAME]


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o640, 0o604])
def test_a_list_that_others_can_reach_is_refused(trust: TrustedFiles, rules: Path, mode: int) -> None:
    trust.add(rules)
    (trust.folder / TRUST_FILE_NAME).chmod(mode)
    with pytest.raises(UnreadableError, match="is open to other users"):
        trust.check(rules, TEXT)


def test_a_link_in_the_place_of_the_list_is_refused(trust: TrustedFiles, rules: Path, tmp_path: Path) -> None:
    trust.add(rules)
    (trust.folder / TRUST_FILE_NAME).rename(tmp_path / "list")
    (trust.folder / TRUST_FILE_NAME).symlink_to(tmp_path / "list")
    with pytest.raises(UnreadableError, match="symbolic links"):
        trust.check(rules, TEXT)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"version": 2, "files": {}}',
        '{"version": 1}',
        '{"version": 1, "files": {"a": 1}}',
    ],
)
def test_a_damaged_list_is_an_error_and_trusts_nothing(
    trust: TrustedFiles, rules: Path, content: str
) -> None:
    trust.add(rules)
    (trust.folder / TRUST_FILE_NAME).write_text(content, encoding="utf-8")
    with pytest.raises(UnreadableError, match="damaged"):
        trust.check(rules, TEXT)


def test_a_file_that_is_not_there_cannot_be_trusted(trust: TrustedFiles, tmp_path: Path) -> None:
    with pytest.raises(UnreadableError):
        trust.add(tmp_path / "missing.yaml")
    assert trust.all() == {}


def test_a_folder_that_cannot_be_written_is_named(rules: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("", encoding="utf-8")
    with pytest.raises(UnreadableError, match="not a directory"):
        TrustedFiles(tmp_path / "taken").add(rules)
    with pytest.raises(UnreadableError) as caught:
        TrustedFiles(Path("/proc/egress")).add(rules)
    assert "--state-dir" in caught.value.hint


def test_the_list_is_plain_json(trust: TrustedFiles, rules: Path) -> None:
    made = trust.add(rules)
    assert json.loads((trust.folder / TRUST_FILE_NAME).read_text()) == {
        "version": 1,
        "files": {os.fspath(rules.resolve()): made},
    }
