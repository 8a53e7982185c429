"""What the commands about rules share: which files, the clock, and what to do with mistakes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import click

from egress.cli import render
from egress.errors import ContentError
from egress.policy.rule_files import find_rule_files, load_policy
from egress.rules.compile.load import LoadResult
from egress.rules.decide.policy import Policy

FILE = click.Path(path_type=Path, readable=False)
"""A path as it was typed. click would call a file that may not be read a wrong command line: it is not."""


def now() -> int:
    """The time, in whole UTC seconds: the one that verdicts are asked for."""
    return int(time.time())  # noqa: TID251 - the command line is where the clock enters


def read(files: Sequence[Path]) -> tuple[list[Path], LoadResult]:
    """The rule files that were named, or the default ones, compiled."""
    paths = list(find_rule_files(files, Path()))
    return paths, load_policy(paths, now())


def policy(files: Sequence[Path]) -> tuple[list[Path], Policy]:
    """The policy of the files; shows what is wrong and stops when there is an error."""
    paths, loaded = read(files)
    if loaded.policy is None:
        render.findings(loaded.findings, stderr=True)
        raise ContentError("these rules cannot be used", "put right what is listed above")
    return paths, loaded.policy
