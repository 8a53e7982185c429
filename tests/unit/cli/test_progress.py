"""A step that takes long shows that it goes on: on a terminal in one line, elsewhere in two."""

from __future__ import annotations

import errno
import io
import os
import sys
from pathlib import Path

import pytest

from egress.cli import progress
from egress.cli.progress import ProgressStep
from tests.ui.terminal import Terminal

Captured = pytest.CaptureFixture[str]
ERASED = "\r\x1b[K"


class Clock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


class FullStream(io.StringIO):
    """A stream to a disk that is full."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


# Without a terminal -------------------------------------------------------------------------------


def test_a_step_of_less_than_two_seconds_prints_nothing(clock: Clock, capsys: Captured) -> None:
    step = ProgressStep("copying", clock)
    for passed in (0.0, 1.0, 1.9):
        clock.now = 100 + passed
        step.show()
    step.end()
    assert capsys.readouterr() == ("", "")


def test_without_a_terminal_a_step_has_a_line_at_its_start_and_one_at_its_end(
    clock: Clock, capsys: Captured
) -> None:
    step = ProgressStep("building egress-sandbox", clock)
    for passed in (2.0, 3.0, 40.0):
        clock.now = 100 + passed
        step.stage(f"stage {passed}")
        step.add_bytes(1000)
        step.show()
    assert capsys.readouterr() == ("", "egress: building egress-sandbox ...\n")
    clock.now = 165.4
    step.end()
    assert capsys.readouterr() == ("", "egress: building egress-sandbox took 1 min 05 s\n")


def test_a_step_that_failed_says_so(clock: Clock, capsys: Captured) -> None:
    step = ProgressStep("building", clock)
    clock.now += 9.9
    step.show()
    step.end(is_failed=True)
    assert capsys.readouterr().err == "egress: building ...\negress: building failed after 9 s\n"


@pytest.mark.parametrize("is_quiet", [False, True])
def test_a_step_of_a_command_ends_with_its_context(is_quiet: bool, capsys: Captured) -> None:
    with progress.step("short", is_quiet=is_quiet) as step:
        step.add_bytes(1)
    with pytest.raises(ZeroDivisionError), progress.step("short", is_quiet=is_quiet):
        _ = 1 / 0
    assert capsys.readouterr() == ("", "")


def test_a_step_is_shown_after_two_seconds_and_then_every_second(clock: Clock, capsys: Captured) -> None:
    pauses: list[float] = []

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        clock.now += seconds
        return len(pauses) == 4

    progress.redraw(ProgressStep("copying", clock), wait)
    assert pauses == [2, 1, 1, 1]
    assert capsys.readouterr().err == "egress: copying ...\n"


def test_an_error_stream_that_cannot_be_written_does_not_end_the_step(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        clock.now += seconds
        return len(waits) > 5

    monkeypatch.setattr(sys, "stderr", FullStream())
    monkeypatch.setattr("egress.cli.render._let_go", lambda _: None)
    progress.redraw(ProgressStep("copying", clock), wait)
    assert waits == [2]


# On a terminal ------------------------------------------------------------------------------------

PROGRAM = """
from egress.cli import progress, render
now = 0.0
step = progress.ProgressStep("copying notes", lambda: now)
step.show()
now = 2.0
step.show()
now = 63.0
step.add_bytes(5_000_000)
step.stage("Step 1/2 : \\x1b[31mFROM x")
step.show()
render.line("a result")
now = 64.0
step.show()
step.end()
render.line("after")
"""


def shown(tmp_path: Path, *before: str, **environ: str) -> str:
    """The bytes that the program writes to a terminal."""
    root = Path(__file__).parents[3]
    words = ["env", *(f"{name}={value}" for name, value in environ.items())]
    line = "; ".join([*before, 'exec "$@"'])
    command = ["sh", "-c", line, "sh", *words, sys.executable, "-c", PROGRAM]
    with Terminal(command, tmp_path, {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(root)}) as terminal:
        assert terminal.ended() == 0, terminal.shown
        return terminal.shown


@pytest.mark.parametrize("environ", [{}, {"NO_COLOR": "1"}])
def test_on_a_terminal_a_step_has_one_line_that_is_gone_at_the_end(
    environ: dict[str, str], tmp_path: Path
) -> None:
    stage = ": Step 1/2 : \\x1b[31mFROM x"
    assert shown(tmp_path, **environ) == (
        f"{ERASED}egress: copying notes, 2 s"
        f"{ERASED}egress: copying notes, 1 min 03 s, 5.0 MB{stage}"
        f"{ERASED}a result\n"
        f"{ERASED}egress: copying notes, 1 min 04 s, 5.0 MB{stage}"
        f"{ERASED}after\n"
    )


def test_the_line_fits_into_a_narrow_terminal(tmp_path: Path) -> None:
    drawn = shown(tmp_path, "stty cols 24").split(ERASED)
    assert drawn[1] == "egress: copying note..."
    assert all(len(each.rstrip("\n")) < 24 for each in drawn)


@pytest.mark.parametrize("kind", ["dumb", ""])
def test_a_terminal_that_cannot_redraw_gets_plain_lines(kind: str, tmp_path: Path) -> None:
    assert shown(tmp_path, TERM=kind) == (
        "egress: copying notes ...\na result\negress: copying notes took 1 min 04 s\nafter\n"
    )


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (999, "1.0 kB"),
        (12_000, "12 kB"),
        (1_500_000, "1.5 MB"),
        (600_000_000, "600 MB"),
        (2 * 10**12, "2000 GB"),
    ],
)
def test_bytes_are_shown_with_their_unit(count: int, text: str) -> None:
    assert progress.size_text(count) == text
