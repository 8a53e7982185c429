"""Tests that are asked for a table: pytest runs, and a plug-in of theirs writes JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from scripts.pages import ROOT


def ask_tests(program: str, plugin: str, option: str, *arguments: str) -> tuple[Any, str]:
    """Run pytest with these arguments; return the JSON of the plug-in, and the output if a test failed."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "found.json"
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", plugin, option, str(file), *arguments],
            cwd=ROOT,
            # The tables speak of what the night proves: large bodies, long tests, and each runtime.
            env={**os.environ, "EGRESS_TEST_TIER": "nightly"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        # 1 is that tests failed, which is for the caller to see.
        if ran.returncode not in (0, 1):
            raise SystemExit(f"{program}: the tests could not be asked\n{ran.stdout}")
        return json.loads(file.read_text(encoding="utf-8")), ran.stdout if ran.returncode else ""


def renew_and_report(program: str, renew: Callable[[Sequence[str]], Iterable[str]]) -> None:
    """Write a table anew for the names on the command line, and say what in it stays as it was."""
    left = list(renew(sys.argv[1:]))
    for line in left:
        print(f"{program}: {line}", file=sys.stderr)
    sys.exit(1 if left else 0)
