"""Shared parts of the commands about rules: files, the clock, and reporting mistakes.

The rule compiler is imported when rules are read: most commands only take a path.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from egress.cli import render
from egress.errors import ContentError

if TYPE_CHECKING:
    from egress.rules.compile.load import LoadResult
    from egress.rules.decide.policy import Policy


def now() -> int:
    """Return the current time in whole UTC seconds."""
    return int(time.time())  # noqa: TID251 - the command line is where the clock enters


def read(files: Sequence[Path]) -> tuple[list[Path], LoadResult]:
    """Compile the named rule files, or the default ones."""
    from egress.policy.rule_files import find_rule_files, load_policy

    paths = list(find_rule_files(files, Path()))
    return paths, load_policy(paths, now())


def policy(files: Sequence[Path]) -> tuple[list[Path], Policy]:
    """Return the policy of the files; show the findings and stop if there is an error."""
    paths, loaded = read(files)
    if loaded.policy is None:
        render.findings(loaded.findings, stderr=True)
        raise ContentError("these rules cannot be used", "fix the errors above")
    return paths, loaded.policy
