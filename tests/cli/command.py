"""Running `egress` as people do: a process with its own folder, environment and standard streams."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

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
    done = subprocess.run(
        command(arguments),
        cwd=cwd,
        env=environment(cwd, env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout,
        check=False,
    )
    return Outcome(
        done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    )


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
