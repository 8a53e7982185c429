"""`egress log query`: search lines."""

from __future__ import annotations

from pathlib import Path

import click

from egress.cli import render
from egress.cli.log import filter_options, line_format, locations
from egress.cli.render import DIM, count


@click.command(short_help="Search lines.")
@filter_options.options
@click.option(
    "--limit", "-n", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Number of lines."
)
@click.option("--before", metavar="PLACE", help="Continue where another page ended.")
@click.option("--json", "as_json", is_flag=True, help="Print the lines unchanged, one JSON object each.")
@click.option("--csv", "as_csv", is_flag=True, help="Print the lines as CSV.")
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
    """Search lines of the audit log, newest first.

    All given options must match. The exit status is 1 if no line matches.

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
            # A page searches a bounded part of the log; on the command line, keep searching.
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
        render.line("no matching lines", stderr=True)
    return int(not found)
