"""Progress of a step that takes longer than two seconds, on the error stream.

On a terminal the step has one line, redrawn about once a second with the elapsed time and erased at the end.
Elsewhere it has a plain line when it has taken two seconds, and another one at its end. A shorter step prints
nothing. Lines that are printed meanwhile by `egress.cli.render` stand above the redrawn line. A step must end
before a child process gets the terminal.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from egress.cli import render
from egress.errors import EgressError
from egress.runtime.stages import reporting_stages

SILENT_SECONDS: Final = 2.0
"""A step that ends before prints nothing."""
_REDRAW_INTERVAL: Final = 1.0
_BYTE_UNITS: Final = ("kB", "MB", "GB")


class ProgressStep:
    """A step of a command. Any thread may call its methods."""

    def __init__(self, name: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`name` says what is being done: `building egress-sandbox`."""
        self._name = name
        self._clock = clock
        self._began = clock()
        self._stage = ""
        self._bytes = 0
        self._is_announced = False

    def stage(self, text: str) -> None:
        """Name the part of the step that begins now; shown with the next redraw."""
        # The name of the step says it already.
        self._stage = "" if text == self._name else text

    def add_bytes(self, count: int) -> None:
        """Count bytes that were moved; shown with the next redraw."""
        self._bytes += count

    def show(self) -> None:
        """Print or redraw the line of the step, if it has taken long enough."""
        seconds = self._clock() - self._began
        if seconds < SILENT_SECONDS:
            return
        if render.can_redraw():
            render.draw_live(self._line(seconds))
        elif not self._is_announced:
            _say(f"{self._name} ...")
        self._is_announced = True

    def end(self, *, is_failed: bool = False) -> None:
        """Erase the line; where it cannot be erased, say how long the step took."""
        if not self._is_announced:
            return
        if render.can_redraw():
            render.erase_live()
            return
        verb = "failed after" if is_failed else "took"
        _say(f"{self._name} {verb} {_duration(self._clock() - self._began)}")

    def _line(self, seconds: float) -> str:
        # The time stands before the stage, whose end is cut in a narrow terminal.
        moved = f", {size_text(self._bytes)}" if self._bytes else ""
        stage = f": {self._stage}" if self._stage else ""
        return f"egress: {self._name}, {_duration(seconds)}{moved}{stage}"


@contextmanager
def step(name: str, *, is_quiet: bool = False) -> Iterator[ProgressStep]:
    """Show the progress of what the context does; `is_quiet` shows none."""
    found = ProgressStep(name)
    ended = threading.Event()
    ticker = threading.Thread(target=redraw, args=(found, ended.wait), name="egress-progress", daemon=True)
    if not is_quiet:
        ticker.start()
    is_failed = True
    try:
        with reporting_stages(found.stage):
            yield found
        is_failed = False
    finally:
        ended.set()
        if not is_quiet:
            # Joined before the last line, so that no redraw can follow it.
            ticker.join()
            found.end(is_failed=is_failed)


def redraw(found: ProgressStep, wait: Callable[[float], bool]) -> None:
    """Show a step from its second second on, until `wait` reports its end."""
    pause = SILENT_SECONDS
    while not wait(pause):
        try:
            found.show()
        except EgressError:
            # An error stream that cannot be written must not end the step.
            return
        pause = _REDRAW_INTERVAL


def _say(text: str) -> None:
    # Without a style: whatever cannot redraw a line may not know colours, either.
    render.line(f"egress: {text}", stderr=True)


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"


def size_text(count: int) -> str:
    """Return a number of bytes with its unit, as disks are labelled."""
    shown, unit = count / 1000, _BYTE_UNITS[0]
    for larger in _BYTE_UNITS[1:]:
        if shown >= 1000:
            shown, unit = shown / 1000, larger
    return f"{shown:.1f} {unit}" if shown < 10 else f"{shown:.0f} {unit}"
