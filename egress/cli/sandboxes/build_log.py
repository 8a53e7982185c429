"""The log of an image build: everything that builders print goes into a file of the state folder.

The terminal gets the progress of the build, and the last lines of the file if it fails.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TextIO

from egress.cli import progress, render
from egress.cli.progress import ProgressStep
from egress.cli.render import DIM
from egress.errors import EgressError, UnreadableError, reason_of
from egress.policy.state_dir_ownership import make_state_dir

if TYPE_CHECKING:
    from egress.runtime.docker.images.builder import BuildProgress

SHOWN_LINES: Final = 20
"""Lines of the log that are printed when a build fails."""
_OPEN_FLAGS: Final = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC


class BuildLog:
    """Is told what a build does, writes it into a file, and shows it as far as was asked for."""

    def __init__(self, file: TextIO, step: ProgressStep, *, is_verbose: bool) -> None:
        self._file = file
        self._step = step
        self._is_verbose = is_verbose
        self.last: deque[str] = deque(maxlen=SHOWN_LINES)

    def step(self, text: str) -> None:
        """Write the beginning of a step, and show it as the stage of the build."""
        self._step.stage(text)
        self.output(text)

    def output(self, line: str) -> None:
        """Write a line that a builder has printed. Raises `UnreadableError` if the disk is full."""
        self.last.append(line)
        try:
            self._file.write(f"{line}\n")
        except OSError as error:
            raise UnreadableError(
                f"the log of the build cannot be written: {reason_of(error)}", "free disk space"
            ) from None
        if self._is_verbose:
            render.line((line, DIM), stderr=True, whole=True)


@contextmanager
def logged_build(name: str, state: Path, *, is_verbose: bool) -> Iterator[BuildProgress]:
    """Show the progress of building the image `name`, and log the output of its builders.

    With `is_verbose`, the output is printed too, and no progress. If the build fails, its last lines are
    printed, and the error names the log.
    """
    make_state_dir(state)
    path = state / f"build-{name}.log"
    with _opened(path) as file, progress.step(f"building {name}", is_quiet=is_verbose) as step:
        log = BuildLog(file, step, is_verbose=is_verbose)
        try:
            yield log
        except EgressError as error:
            # A build that was refused before its first step has printed nothing.
            if not log.last:
                raise
            if not is_verbose:
                for line in log.last:
                    render.line((line, DIM), stderr=True, whole=True)
            # Without the lines that stand above: some errors quote them for programs.
            cause = getattr(error, "cause", error.message)
            failed = type(error)(str(cause), f"{error.hint}; the log of the build: {path}".lstrip("; "))
            failed.exit_status = error.exit_status
            raise failed from None


def _opened(path: Path) -> TextIO:
    """Open the log for this user alone, and never through a link: build output names hosts and files."""
    try:
        return os.fdopen(os.open(path, _OPEN_FLAGS, 0o600), "w", encoding="utf-8", buffering=1)
    except OSError as error:
        raise UnreadableError(
            f"{path} cannot be written: {reason_of(error)}", "remove it, or name another state folder"
        ) from None
