"""`egress cp`: which of the two is where. What is copied is tested with the files of a sandbox."""

from __future__ import annotations

from pathlib import Path

import pytest

from egress.cli.main import main

Captured = pytest.CaptureFixture[str]


@pytest.mark.usefixtures("box")
@pytest.mark.parametrize(
    "words",
    [("one:a", "one:b"), ("a", "b"), ("./one:a", "b"), ("Not-a-name:a", "b")],
    ids=["both", "neither", "looks like one", "no name"],
)
def test_one_of_the_two_is_in_a_sandbox(words: tuple[str, str], folder: Path, capsys: Captured) -> None:
    assert main(["cp", "--runtime-dir", str(folder), *words]) == 2
    assert "SANDBOX:PATH" in capsys.readouterr().err


@pytest.mark.usefixtures("fleet")
def test_a_sandbox_that_is_not_there_is_named(folder: Path, capsys: Captured) -> None:
    assert main(["cp", "--runtime-dir", str(folder), "nobody:/etc/passwd", "here"]) == 3
    assert "no sandbox is named nobody" in capsys.readouterr().err
