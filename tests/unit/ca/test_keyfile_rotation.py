"""The command in a hint is about this authority and no other, whoever runs it and from where."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from egress.ca.keyfile import rotate_command
from egress.ca.store import AuthorityStore


def test_it_names_the_folder_and_the_sandbox_even_where_they_are_the_usual_ones(tmp_path: Path) -> None:
    command = rotate_command(AuthorityStore(tmp_path / "ca").path("default"))
    assert command == f"egress ca rotate --state-dir {tmp_path} --sandbox default"


def test_it_means_the_same_from_another_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    words = shlex.split(rotate_command(Path("my state/ca/a.b.pem")))
    assert words[-4:] == ["--state-dir", str(tmp_path / "my state"), "--sandbox", "a.b"]


def test_a_constrained_one_is_made_from_the_rules_of_the_proxy(tmp_path: Path) -> None:
    file = tmp_path / "ca/box.pem"
    rules = [tmp_path / "hosts.yaml", tmp_path / "more"]
    command = rotate_command(file, constrain=True, rules=rules, profile="small")
    tail = f"--constrain --rules {rules[0]} --rules {rules[1]} --profile small"
    assert command.endswith(f"--sandbox box {tail}")


def test_where_the_rules_are_not_known_they_have_to_be_filled_in(tmp_path: Path) -> None:
    """Without them it would take whatever lies in the working directory."""
    assert rotate_command(tmp_path / "ca/box.pem", constrain=True).endswith("--constrain --rules FILE")
