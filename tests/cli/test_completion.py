"""Shells complete egress: the script is loaded into a real bash, and asked."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import egress, environment, put

ASK = """
eval "$(egress completion bash)"
COMP_WORDS=({words}) COMP_CWORD={last}
_egress_completion egress
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


def completed(folder: Path, *words: str) -> list[str]:
    script = put(folder / "bin/egress", f'#!/bin/sh\nexec "{sys.executable}" -m egress "$@"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    text = ASK.format(words=" ".join(f"'{word}'" for word in ("egress", *words)), last=len(words))
    env = environment(folder)
    env["PATH"] = f"{folder}/bin:{env['PATH']}"
    run = subprocess.run(
        ["bash", "--norc", "-c", text], cwd=folder, env=env, capture_output=True, text=True, check=True
    )
    assert run.stderr == ""
    return run.stdout.split()


@pytest.mark.system("bash")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("expl",), ["explain"]),
        (("c",), ["check", "cp", "ca", "completion"]),
        (("rules", "s"), ["show"]),
        (("explain", "--pro"), ["--profile"]),
        (("completion", "z"), ["zsh"]),
        (("zzz",), []),
    ],
)
def test_bash_completes(words: tuple[str, ...], expected: list[str], tmp_path: Path) -> None:
    assert completed(tmp_path, *words) == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_is_answered_in_its_own_protocol(shell: str, tmp_path: Path) -> None:
    env = {
        "_EGRESS_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": "egress ex",
        "COMP_CWORD": "1" if shell != "fish" else "ex",
    }
    outcome = egress(cwd=tmp_path, env=env)
    assert outcome.status == 0
    assert "explain" in outcome.out
    assert outcome.err == ""
