"""A tool as its user meets it: what it is, what has to be set for it, and what cannot work yet.

    GH = Tool("gh", "GitHub", built(GH_BUILD, "gh", "--version"))

    @GH.proves("issue list")
    def test_gh_lists_issues(lab: ToolLab) -> None: ...

What is declared here is what happens: a test gives the tool exactly `sets`, and docs/works-with.md shows
the same.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest


@dataclass(frozen=True)
class Tool:
    """One row of docs/works-with.md."""

    name: str
    family: str
    """The heading under which it stands."""
    version: Callable[[], str]
    rules: str = ""
    """The preset, or what else the rules say, in words of the table."""
    sets: Mapping[str, str] = field(default_factory=dict)
    """Variables that its user sets in the sandbox. None is the goal."""
    agent: str = ""
    """The name by which `egress run --agent` knows it."""
    cannot: Mapping[str, str] = field(default_factory=dict)
    """What does not work, by a word for it, and why; a test shows each."""

    def proves(self, *facts: str) -> pytest.MarkDecorator:
        """Mark a test that proves these facts of the tool, or shows what it cannot."""
        return pytest.mark.works_with(self, *facts)


@dataclass(frozen=True)
class Absent:
    """A tool that could not be run, and why: a row as well, so that nothing is left out in silence."""

    name: str
    family: str
    why: str


def printed(*command: str | Path) -> Callable[[], str]:
    """The first thing like a version in what a command prints."""

    def ask() -> str:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        found = re.search(r"\d+(?:\.\d+)+\w*", ran.stdout + ran.stderr)
        if found is None:
            raise ValueError(f"{command[0]} prints no version")
        return found[0]

    return ask


def pinned(file: Path, package: str) -> Callable[[], str]:
    """The version that a file of pins names for a package."""

    def ask() -> str:
        pattern = rf'(?m)^(?:require)?\s*"?{re.escape(package)}"?(?:==|": "| v)([\w.]+)'
        found = re.search(pattern, file.read_text("utf-8"))
        if found is None:
            raise ValueError(f"{file} does not pin {package}")
        return found[1]

    return ask
