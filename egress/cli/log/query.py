"""`egress log query`: find lines."""

from __future__ import annotations

from pathlib import Path

import click

from egress.cli import render
from egress.cli.log import filter_options, line_format, locations
from egress.cli.render import DIM, count


@click.command(short_help="Find lines.")
@filter_options.options
@click.option(
    "--limit", "-n", type=click.IntRange(1, 100_000), default=50, show_default=True, help="How many."
)
@click.option("--before", metavar="PLACE", help="Go on where another page ended.")
@click.option("--json", "as_json", is_flag=True, help="Print the lines as they are, one object a line.")
@click.option("--csv", "as_csv", is_flag=True, help="Print them as CSV.")
@locations.of_index
def query(
    limit: int,
    before: str | None,
    as_json: bool,
    as_csv: bool,
    state_dir: Path | None,
    directory: Path | None,
    place: Path | None,
    **options: str,
) -> int:
    """Find lines of the audit log; the newest come first.

    Options that are given must all hold. The exit status is 1 when there is no such line.

    \b
    Examples:
      egress log query --verdict deny --since 2h
      egress log query --sandbox agent-1 --host '*.github.com' --status 5xx
      egress log query --secret github --grep /user/keys --json
    """
    line_format.refuse_both(as_json=as_json, as_csv=as_csv)
    from egress.review import Cursor

    wanted = filter_options.filters(**options)
    cursor = None if before is None else Cursor.of(before)
    with locations.open_index(state_dir, directory, place) as index:
        page = index.query(wanted, limit, cursor)
        found = list(page.entries)
        while page.cursor is not None and len(found) < limit:
            # What a page may look through is bounded; who asked here is ready to wait.
            page = index.query(wanted, limit - len(found), page.cursor)
            found += page.entries
    if as_json:
        for entry in found:
            line_format.as_json(entry)
    elif as_csv:
        line_format.as_csv(found)
    else:
        render.table([line_format.cells(entry) for entry in found])
    if page.cursor is not None:
        render.line(
            ("more: ", DIM), f"{count(len(found), 'line')} shown; add `--before {page.cursor}`", stderr=True
        )
    elif not found:
        render.line("no line of the log is like that", stderr=True)
    return int(not found)
