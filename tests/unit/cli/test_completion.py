"""`egress completion` prints a script for each shell that it knows."""

from __future__ import annotations

import pytest

from egress.cli.main import main


@pytest.mark.parametrize(
    ("shell", "word"), [("bash", "complete -o"), ("zsh", "#compdef egress"), ("fish", "complete --no-files")]
)
def test_prints_a_script_for_the_shell(shell: str, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert word in text
    assert "_EGRESS_COMPLETE" in text


def test_another_shell_is_status_two(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "csh"]) == 2
    assert "'bash', 'zsh', 'fish'" in capsys.readouterr().err
