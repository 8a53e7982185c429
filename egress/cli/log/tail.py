"""`egress log tail`: show the last lines, and follow new ones."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from egress.cli import render
from egress.cli.log import filter_options, line_format, locations
from egress.cli.render import Cell, Part

if TYPE_CHECKING:
    from egress.review import Filters

POLL_INTERVAL = 0.25
MAX_CELL_WIDTHS = (12, 24, 15, 3, 60, 32, 12, 24)
"""Widths of the cells: a longer one shifts the rest of its own line only."""
MAX_WAITING_LINES = 500


@click.command(short_help="Show the last lines, and follow new ones.")
@filter_options.options
@click.option("--follow", "-f", "follows", is_flag=True, help="Follow new lines until Ctrl-C.")
@click.option(
    "--lines",
    "-n",
    "last",
    type=click.IntRange(0, 10_000),
    default=10,
    show_default=True,
    help="Number of lines.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the lines unchanged, one JSON object each.")
@click.option("--csv", "as_csv", is_flag=True, help="Print the lines as CSV.")
@locations.of_log
def tail(
    follows: bool,
    last: int,
    as_json: bool,
    as_csv: bool,
    state_dir: Path | None,
    directory: Path | None,
    **options: str,
) -> int:
    """Show the last lines of the audit log and, with -f, every new one.

    Reads the files directly, without an index. New files of the log are followed, too.

    \b
    Examples:
      egress log tail
      egress log tail -f --verdict deny
    """
    line_format.refuse_both(as_json=as_json, as_csv=as_csv)
    wanted = filter_options.filters(**options)
    where = locations.folder(state_dir, directory)
    return show(where, wanted, last, follows=follows, as_json=as_json, as_csv=as_csv)


def show(
    where: Path, wanted: Filters, last: int, *, follows: bool, as_json: bool, as_csv: bool = False
) -> int:
    """Print the last matching lines of a log, and new ones until interrupted."""
    from egress.review.follow import follow

    table = _Table()

    def wait() -> bool:
        table.print()
        # Flushed before each pause: a reader behind a pipe wants new lines now.
        render.finish()
        time.sleep(POLL_INTERVAL)
        return True

    if as_csv:
        # Only the head, once: lines that follow are printed one at a time.
        line_format.as_csv([])
    # Ctrl-C is the way to end this command, so it is no failure.
    with contextlib.suppress(KeyboardInterrupt):
        for entry in follow(where, wanted, last, wait if follows else None):
            if as_json:
                line_format.as_json(entry)
            elif as_csv:
                line_format.as_csv([entry], with_head=False)
            else:
                table.add(line_format.cells(entry, is_short=True))
    table.print()
    return 0


class _Table:
    """Columns that grow and never shrink: what stands on the screen already cannot be moved."""

    def __init__(self) -> None:
        self._widths = [0] * len(MAX_CELL_WIDTHS)
        self._waiting: list[list[Part]] = []

    def add(self, cells: Sequence[Cell]) -> None:
        """Keep a line until there is nothing to read, so that those that come together fit each other."""
        row = [(cell, render.PLAIN) if isinstance(cell, str) else cell for cell in cells]
        # Escaped before measuring: an escaped character is wider.
        row = [(render.printable(text), style) for text, style in row]
        row += [("", render.PLAIN)] * (len(MAX_CELL_WIDTHS) - len(row))
        # Lines of one burst are aligned together before they are printed.
        self._waiting.append(row)
        lengths = (
            len(text) * (len(text) <= most) for (text, _), most in zip(row, MAX_CELL_WIDTHS, strict=True)
        )
        self._widths = [max(pair) for pair in zip(self._widths, lengths, strict=True)]
        # A flood of lines must not grow in memory until it pauses.
        if len(self._waiting) >= MAX_WAITING_LINES:
            self.print()

    def print(self) -> None:
        """Print what waits."""
        for row in self._waiting:
            # Trailing empty cells would only add spaces.
            while row and not row[-1][0]:
                row.pop()
            padded = [
                (text.ljust(width) + "  ", style)
                for (text, style), width in zip(row[:-1], self._widths, strict=False)
                if width
            ]
            render.line(*padded, *row[-1:])
        self._waiting.clear()
