"""What people see: the only module that formats for a screen. Plain where the output is no terminal.

Colour means one thing each: green is allowed or passed, red is denied or wrong, yellow is doubtful.
Everything is also said in words. Texts from rule files are written as text, never as markup.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from egress.types import Finding, Severity

if TYPE_CHECKING:
    from rich.console import Console

Style = str
Part = tuple[str, Style]
GOOD, BAD, DOUBT, DIM, BOLD, PLAIN = "green", "red", "yellow", "dim", "bold", ""


def _console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False, markup=False, emoji=False, soft_wrap=True)


def line(*parts: Part | str, stderr: bool = False) -> None:
    """One line of styled parts."""
    stream = sys.stderr if stderr else sys.stdout
    texts = [(part, PLAIN) if isinstance(part, str) else part for part in parts]
    if not stream.isatty():
        # The common case in scripts and pipes: no need to load anything.
        stream.write("".join(text for text, _ in texts) + "\n")
        return
    from rich.text import Text

    _console(stderr=stderr).print(Text.assemble(*texts))


def error(message: str, hint: str = "") -> None:
    """A message that ends a command."""
    line(("error: ", BAD), message, stderr=True)
    if hint:
        line(("hint: ", DIM), hint, stderr=True)


def findings(items: Iterable[Finding]) -> None:
    """Findings, one after the other: where, what, and the hint below."""
    for item in items:
        style = BAD if item.severity is Severity.ERROR else DOUBT
        line((f"{item.place}: ", BOLD), (f"{item.severity}: ", style), item.message)
        if item.hint:
            line(("  hint: ", DIM), item.hint)


def table(rows: Sequence[Sequence[Part | str]], *, indent: int = 0) -> None:
    """Rows in columns as wide as their widest cell; the last column runs free."""
    cells = [[(cell, PLAIN) if isinstance(cell, str) else cell for cell in row] for row in rows]
    count = max((len(row) for row in cells), default=0)
    widths = [max((len(row[n][0]) for row in cells if n < len(row)), default=0) for n in range(count)]
    for row in cells:
        padded: list[Part] = [(" " * indent, PLAIN)]
        for number, (text, style) in enumerate(row):
            is_last = number == len(row) - 1
            padded.append((text, style))
            padded.append(("" if is_last else " " * (widths[number] - len(text) + 2), PLAIN))
        line(*padded)


def data(value: object) -> None:
    """A value as JSON, for programs."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def text(value: str) -> None:
    """A text as it is."""
    sys.stdout.write(value)


def count(number: int, noun: str) -> str:
    """`1 error`, `2 errors`."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun[:-1]}ies" if noun.endswith("y") else f"{number} {noun}s"
