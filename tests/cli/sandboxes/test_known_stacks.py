"""The stacks that are looked for: each is asked as its users would, and its lines are lines of a shell."""

from __future__ import annotations

import re
import subprocess

import pytest

from egress.cli.sandboxes.stacks.known_stacks import STACKS, Stack

AROUND = re.compile(r"(?i)insecure|--cacert|no-check|http\.ssl|strict-ssl|proxy|-k\b|reject_unauthorized")


def test_names_are_told_apart() -> None:
    assert len({stack.name for stack in STACKS}) == len(STACKS)


@pytest.mark.parametrize("stack", STACKS, ids=lambda stack: stack.name)
def test_nothing_is_said_of_trust_or_of_proxies(stack: Stack) -> None:
    """Else it would be no proof for those who say nothing of it."""
    assert not AROUND.search(stack.ask)
    assert "$URL" in stack.ask or "$AT" in stack.ask
    assert stack.cure


@pytest.mark.parametrize("stack", STACKS, ids=lambda stack: stack.name)
def test_its_lines_can_be_read_by_a_shell(stack: Stack) -> None:
    for line in (stack.version, stack.ask):
        read = subprocess.run(["sh", "-n", "-c", line], capture_output=True, text=True, check=False)
        assert (read.returncode, read.stderr) == (0, "")


@pytest.mark.parametrize("stack", STACKS, ids=lambda stack: stack.name)
def test_one_that_is_not_there_is_not_found(stack: Stack) -> None:
    read = subprocess.run(
        ["/bin/sh", "-c", stack.version], capture_output=True, check=False, env={"PATH": "/nonexistent"}
    )
    assert read.returncode != 0
