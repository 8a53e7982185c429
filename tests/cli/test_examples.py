"""Every example in every help text runs as it stands, in a folder with the shipped rules."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import click
import pytest

from egress.cli.main import cli
from tests.cli.command import CONFIG, assert_is_an_answer, egress

DENIED = {
    "egress explain POST https://api.github.com/gists",
    "egress doctor",
    "egress doctor --json",
    "egress doctor --rules config/hosts.yaml --offline",
}
"""Examples that show a denial, or a fault."""

WANTING = {
    "egress kill api.example.com": "no proxy is running here",
    "egress kill --undo api.example.com": "no proxy is running here",
    "egress log verify": "there is no",
    "egress log verify --state-dir /var/lib/egress": "there is no key",
    "egress log verify --dir /var/log/egress --key /etc/egress/audit.key": "there is no key",
    "egress serve --rules hosts.yaml": "there is no file hosts.yaml",
    "egress status": "no proxy is running here",
    "egress status --json": "no proxy is running here",
}
"""Examples that want something that is not here, and what they say then; tests of the proxy have it."""


def commands(group: click.Group, context: click.Context) -> list[click.Command]:
    found: list[click.Command] = [group]
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found += commands(command, context) if isinstance(command, click.Group) else [command]
    return found


def examples() -> list[str]:
    with click.Context(cli) as context:
        helps = [command.help or "" for command in commands(cli, context)]
    lines = (line.strip() for text in helps for line in text.partition("Examples:")[2].splitlines())
    return sorted({line for line in lines if line.startswith("egress ")})


def test_there_are_examples_and_the_denials_are_among_them() -> None:
    assert len(examples()) > 10
    assert set(examples()) >= DENIED | WANTING.keys()


@pytest.mark.parametrize("example", sorted(set(examples()) - WANTING.keys()))
def test_an_example_runs_as_it_stands(example: str, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    shutil.copy(CONFIG, tmp_path / "config")
    outcome = egress(*shlex.split(example)[1:], cwd=tmp_path)
    if "completion" not in example:
        assert_is_an_answer(outcome)
    assert outcome.status == (1 if example in DENIED else 0), outcome
    assert outcome.out
    # The first export makes the authority, and says so.
    assert not outcome.err or (outcome.err.startswith("note: ") and "ca export" in example)


@pytest.mark.parametrize("example", sorted(WANTING))
def test_an_example_that_wants_more_says_what_it_wants(example: str, tmp_path: Path) -> None:
    outcome = egress(*shlex.split(example)[1:], cwd=tmp_path)
    assert outcome.status == 3, outcome
    assert WANTING[example] in outcome.err
    assert "hint: " in outcome.err
