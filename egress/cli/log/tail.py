"""`egress log tail`: the last lines, and what comes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from egress.cli import render
from egress.cli.log import asked, lines, places
from egress.cli.render import Cell

if TYPE_CHECKING:
    from egress.review import Filters

PAUSE = 0.25
WIDTHS = (12, 12, 7, 3)
"""Of the first cells: lines that come one by one cannot wait for the widest."""


@click.command(short_help="Show the last lines, and what comes.")
@asked.options
@click.option(
    "--follow", "-f", "follows", is_flag=True, help="Go on with what comes, until it is interrupted."
)
@click.option(
    "--lines", "-n", "last", type=click.IntRange(0, 10_000), default=10, show_default=True, help="How many."
)
@click.option("--json", "as_json", is_flag=True, help="Print the lines as they are, one object a line.")
@places.of_log
def tail(
    follows: bool,
    last: int,
    as_json: bool,
    state_dir: Path | None,
    directory: Path | None,
    **options: Unpack[asked.Asked],
) -> int:
    """Show the last lines of the audit log and, with -f, every new one.

    It reads the files as they are and needs no index. A new file of the log is followed too.

    \b
    Examples:
      egress log tail
      egress log tail -f --verdict deny
    """
    wanted = asked.filters(**options)
    return show(places.folder(state_dir, directory), wanted, last, follows=follows, as_json=as_json)


def show(where: Path, wanted: Filters, last: int, *, follows: bool, as_json: bool) -> int:
    """Print the last lines of a log that are wanted, and what comes, until it is interrupted."""
    from egress.review.follow import follow

    try:
        for entry in follow(where, wanted, last, _wait if follows else None):
            if as_json:
                lines.as_json(entry)
            else:
                render.line(*_spaced(lines.cells(entry, is_short=True)))
            if follows:
                render.finish()
    except KeyboardInterrupt:
        return 0
    return 0


def _wait() -> bool:
    time.sleep(PAUSE)
    return True


def _spaced(cells: list[Cell]) -> list[Cell]:
    found: list[Cell] = []
    for place, cell in enumerate(cells):
        text, style = (cell, render.PLAIN) if isinstance(cell, str) else cell
        shown = render.printable(text)
        width = WIDTHS[place] if place < len(WIDTHS) else 0
        if shown or width:
            found.append((f"{shown:<{width}} ", style))
    return found
