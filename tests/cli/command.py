"""Running `egress` as people do: a process with its own folder, environment and standard streams.

The process is forked where that makes no difference (`forked.py`), and really started for tests marked
`real_process` and for an environment that Python reads at its start.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cli import forked

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "config/hosts.yaml"

Argument = str | bytes | Path


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a run."""

    status: int
    out: str
    err: str

    @property
    def said(self) -> str:
        return self.out + self.err


def egress(
    *arguments: Argument, cwd: Path, env: Mapping[str, str] | None = None, timeout: float = 60
) -> Outcome:
    """Run the command in `cwd`, with nothing in the environment but what is given."""
    around = environment(cwd, env)
    if may_fork(around):
        words = [os.fsencode(argument) for argument in arguments]
        status, out, err = forked.run(words, cwd=cwd, env=around, timeout=timeout)
    else:
        done = subprocess.run(
            command(arguments),
            cwd=cwd,
            env=around,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        status, out, err = done.returncode, done.stdout, done.stderr
    return Outcome(status, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


def may_fork(env: Mapping[str, str]) -> bool:
    """Whether a forked process serves as well as a started one, for this test and this environment."""
    return "EGRESS_TEST_REAL" not in os.environ and forked.can_fork(env)  # noqa: TID251 - conftest.py sets it


def command[A: Argument](arguments: Sequence[A]) -> list[A | str]:
    return [sys.executable, "-m", "egress", *arguments]


def environment(home: Path, env: Mapping[str, str] | None = None) -> dict[str, str]:
    """A home without configuration, and only what coverage needs to see into the process."""
    kept = {name: value for name, value in os.environ.items() if name.startswith("COVERAGE")}  # noqa: TID251
    found = {"PATH": os.defpath, "HOME": str(home), "PYTHONPATH": str(ROOT), "LANG": "C.UTF-8"}
    return {**kept, **found, **(env or {})}


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def assert_is_an_answer(outcome: Outcome) -> None:
    """Whatever was asked: a known status, no traceback, and lines that a terminal only shows."""
    assert outcome.status in (0, 1, 2, 3), outcome
    assert "Traceback" not in outcome.said, outcome
    assert "unexpected error (" not in outcome.said, outcome
    for line in outcome.said.split("\n"):
        assert line.isprintable(), repr(line)
    if outcome.status in (2, 3):
        assert outcome.err.startswith(("error: ", "Usage: ")), outcome
