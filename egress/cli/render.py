"""Output for people: the only module that formats for a screen. Plain if the output is no terminal.

Each colour has one meaning: green is allowed or passed, red is denied or wrong, yellow is doubtful. Words
always say the same. Foreign text (from a rule file, a URL, a file name) is shown as one printable line, never
as markup and never as a command to the terminal.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from egress import environment
from egress.errors import UnreadableError, reason_of
from egress.types import Finding, Severity

if TYPE_CHECKING:
    from rich.console import Console

Style = str
Part = tuple[str, Style]
Cell = Part | str
GOOD, BAD, DOUBT, DIM, BOLD, PLAIN = "green", "red", "yellow", "dim", "bold", ""

MAX_MESSAGE = 1000
"""Longest message shown: an error may quote the input, and long quotes are not read."""


def printable(text: str) -> str:
    r"""Escape `text` to one harmless line: other characters become `\x1b` or `\u202e`."""
    # The usual case first: almost no text needs escaping.
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def line(*parts: Cell, stderr: bool = False, whole: bool = False) -> None:
    """Print a line of styled parts; a narrow terminal wraps it, indented, between words.

    `whole` leaves wrapping to the terminal: text to be copied, such as a command, must stay in one piece.
    """
    stream = sys.stderr if stderr else sys.stdout
    cells = [_cell(part) for part in parts]
    with _above_live_line():
        if _is_styled(stream):
            _styled_line(cells, stderr=stderr, whole=whole)
        else:
            _write(stream, "".join(text for text, _ in cells) + "\n")


def _styled_line(cells: Sequence[Part], *, stderr: bool, whole: bool) -> None:
    from rich.text import Text

    console = _console(stderr=stderr)
    text = Text.assemble(*cells)
    if whole:
        console.print(text, soft_wrap=True)
        return
    first, *rest = text.wrap(console, console.width) or [text]
    console.print(first)
    indent = min(len(text.plain) - len(text.plain.lstrip()) + 2, console.width // 2)
    for further in Text(" ").join(rest).wrap(console, console.width - indent) if rest else []:
        console.print(Text(" " * indent) + further)


def error(message: str, hint: str = "") -> None:
    """Print an error that ends a command. A hint with a command in it stays in one piece."""
    # Cut at the end, because the cause stands at the start of our messages.
    if len(message) > MAX_MESSAGE:
        message = f"{message[: MAX_MESSAGE - 3]}..."
    line(("error: ", BAD), message, stderr=True)
    if hint:
        line(("hint: ", DIM), hint, stderr=True, whole="`" in hint)


def findings(items: Iterable[Finding], *, stderr: bool = False) -> None:
    """Print findings: place, message, and the hint below."""
    for item in items:
        style = {Severity.ERROR: BAD, Severity.WARNING: DOUBT}.get(item.severity, DIM)
        line((f"{item.place}: ", BOLD), (f"{item.severity}: ", style), item.message, stderr=stderr)
        if item.hint:
            line(("  hint: ", DIM), item.hint, stderr=stderr)


def table(rows: Sequence[Sequence[Cell]], *, indent: int = 0) -> None:
    """Print rows in columns as wide as their widest cell; a narrow terminal wraps inside cells."""
    cells = [[_cell(cell) for cell in row] for row in rows]
    if not cells:
        return
    if _is_styled(sys.stdout):
        with _above_live_line():
            _grid(cells, indent)
        return
    count = max(len(row) for row in cells)
    widths = [max((len(row[n][0]) for row in cells if n < len(row)), default=0) for n in range(count)]
    for row in cells:
        padded = [
            text.ljust(width + 2 if width else 0) for (text, _), width in zip(row, widths, strict=False)
        ]
        _write(sys.stdout, (" " * indent + "".join(padded)).rstrip() + "\n")


def data(value: object) -> None:
    """Print a value as JSON for programs; ASCII only, so that it survives every pipe and terminal."""
    _write(sys.stdout, json.dumps(value, indent=2, ensure_ascii=True) + "\n")


def text(value: str, *, stderr: bool = False) -> None:
    """Print our own text unchanged."""
    _write(sys.stderr if stderr else sys.stdout, value)


def count(number: int, noun: str) -> str:
    """Return `1 error`, `2 errors`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun[:-1]}ies" if noun.endswith("y") else f"{number} {noun}s"


# The live line --------------------------------------------------------------------------------

_RETURN_AND_ERASE = "\r\x1b[K"
_FALLBACK_COLUMNS = 80


class _LiveLine:
    """The last line of a terminal, redrawn in place. Everything else that is printed goes above it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.is_shown = False


_live = _LiveLine()


def span(seconds: float) -> str:
    """Return a span of time as `90s`, `12m`, `5h` or `3d`."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{max(0.0, seconds):.0f}s"


def can_redraw() -> bool:
    """Report whether the error stream is a terminal on which a line can be redrawn."""
    return sys.stderr.isatty() and not environment.is_dumb_terminal(environment.read_environment())


def draw_live(text: str) -> None:
    """Draw the live line of the error stream, or draw it anew, cut to the width of the terminal."""
    with _live.lock, _failures_of(sys.stderr):
        sys.stderr.write(_RETURN_AND_ERASE + _cut(printable(text), _columns() - 1))
        sys.stderr.flush()
        _live.is_shown = True


def erase_live() -> None:
    """Erase the live line, if it is shown."""
    with _live.lock:
        if _live.is_shown:
            _live.is_shown = False
            with _failures_of(sys.stderr):
                sys.stderr.write(_RETURN_AND_ERASE)
                sys.stderr.flush()


@contextmanager
def _above_live_line() -> Iterator[None]:
    """Print while the live line is erased; the next redraw brings it back below."""
    with _live.lock:
        erase_live()
        yield


def _columns() -> int:
    try:
        found = os.get_terminal_size(sys.stderr.fileno()).columns
    except OSError:
        return _FALLBACK_COLUMNS
    # A terminal whose size was never set reports 0.
    return found or _FALLBACK_COLUMNS


def _cut(text: str, columns: int) -> str:
    """Cut a text to a width in columns: a longer line would wrap, and could not be erased."""
    widths = [2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text]
    if sum(widths) <= columns:
        return text
    while text and sum(widths) > columns - 3:
        text = text[:-1]
        widths.pop()
    return f"{text}..."


# Streams --------------------------------------------------------------------------------------


def prepare() -> None:
    """Make sure the standard streams exist and accept any text, in any encoding."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # Started with the stream closed: output is lost, the exit status is not.
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - lives as long as we do
        elif hasattr(stream, "reconfigure"):
            # A terminal in an ASCII locale cannot show every name, and must not stop the command.
            stream.reconfigure(errors="backslashreplace")


def finish() -> None:
    """Flush the streams while a failure can still be reported. Raises `UnreadableError`."""
    for stream in (sys.stdout, sys.stderr):
        with _failures_of(stream):
            stream.flush()


def give_up() -> None:
    """Drop the buffered output, which could not be written."""
    _let_go(sys.stdout)


def _write(stream: TextIO, text: str) -> None:
    with _above_live_line(), _failures_of(stream):
        stream.write(text)


@contextmanager
def _failures_of(stream: TextIO) -> Iterator[None]:
    """Ignore a reader who went away, as in `egress test | head`; the exit status stays."""
    try:
        yield
    except BrokenPipeError:
        # Silent, as every program in a pipe ends when its reader has seen enough.
        _let_go(stream)
    except OSError as error:
        _let_go(stream)
        raise UnreadableError(f"the output cannot be written: {reason_of(error)}") from None


def _let_go(stream: TextIO) -> None:
    """Redirect the stream to /dev/null, so that the interpreter's exit does not fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    # The descriptor is replaced, not the object: buffered text still needs a place to go.
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


# Terminals ------------------------------------------------------------------------------------


def _cell(part: Cell) -> Part:
    return (printable(part), PLAIN) if isinstance(part, str) else (printable(part[0]), part[1])


def _is_styled(stream: TextIO) -> bool:
    return stream.isatty() and not environment.is_plain_output(environment.read_environment())


def _console(*, stderr: bool = False) -> Console:
    # Imported here, because scripts and pipes never need it.
    from rich.console import Console

    # Markup off: square brackets in a host or a file name would be read as styles.
    return Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def _grid(rows: Sequence[Sequence[Part]], indent: int) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2, 0, 0))
    for number in range(max(len(row) for row in rows)):
        column = [row[number][0] for row in rows if number < len(row)]
        # Folded and not cut: half a host name would be a wrong answer.
        grid.add_column(overflow="fold", no_wrap=all(_is_name(text) for text in column))
    for row in rows:
        grid.add_row(*(Text(text, style) for text, style in row))
    _console().print(Padding(grid, (0, 0, 0, indent)))


def _is_name(text: str) -> bool:
    """Report whether the text is better kept in one piece."""
    return len(text) <= 20 or (len(text) <= 32 and " " not in text)
