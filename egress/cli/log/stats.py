"""`egress log stats`: summarise the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING

import click

from egress.cli import render
from egress.cli.log import filter_options, line_format, locations
from egress.cli.render import BAD, BOLD, DIM, DOUBT, PLAIN, Cell
from egress.review import COUNTED_FIELDS
from egress.review.spreadsheet import harmless, rows_as_csv

if TYPE_CHECKING:
    from egress.review import TrafficTotals

BY = (*COUNTED_FIELDS, "time")
HEAD = ("requests", "denied", "cut", "failed", "with secret", "up", "down", "p50", "p95")


@click.command(short_help="Summarise requests, denials, bytes and durations.")
@click.option("--by", type=click.Choice(BY), default="sandbox", show_default=True, help="Grouping.")
@filter_options.options
@click.option(
    "--top", type=click.IntRange(1, 10_000), default=20, show_default=True, help="Number of groups."
)
@click.option("--json", "as_json", is_flag=True, help="Print the totals as JSON.")
@click.option("--csv", "as_csv", is_flag=True, help="Print the groups as CSV.")
@locations.of_index
def stats(
    by: str,
    top: int,
    as_json: bool,
    as_csv: bool,
    state_dir: Path | None,
    directory: Path | None,
    place: Path | None,
    **options: str,
) -> int:
    """Summarise the audit log: requests, denials, bytes, durations.

    A cut request was stopped after a part of it had been sent. A failed one was allowed, and its upstream
    failed. Durations are p50 and p95 (±6 %).

    \b
    Examples:
      egress log stats
      egress log stats --by host --since 1d
      egress log stats --by time --sandbox agent-1 --json
    """
    line_format.refuse_both(as_json=as_json, as_csv=as_csv)
    from egress.review import TrafficTotals
    from egress.review.timestamps import format_moment

    # Filters are parsed before the index is opened: a typo should not wait for a large log.
    wanted = filter_options.filters(**options)
    with locations.open_index(state_dir, directory, place) as index:
        found = index.stats(wanted, "verdict" if by == "time" else by, top)
        rows = list(found.rows)
        if by == "time":
            rows = [(format_moment(start), numbers) for start, numbers in index.over_time(wanted)]
    # Time is never cut to the top groups, so no remainder exists.
    others = None if by == "time" else found.others
    if as_json:
        render.data(
            {
                "by": by,
                "total": asdict(found.total),
                "rows": [{"name": name, **asdict(numbers)} for name, numbers in rows],
                "others": None if others is None else asdict(others),
            }
        )
        return 0
    # Names come from sandboxes and may contain formulas, so they are disarmed.
    if as_csv:
        parts = [*rows, *([("others", others)] if others is not None else [])]
        # Names come from sandboxes, and a spreadsheet would run a formula among them.
        values = [[harmless(name), *asdict(numbers).values()] for name, numbers in parts]
        render.text(rows_as_csv([[by, *(each.name for each in fields(TrafficTotals))], *values]))
        return 0
    head: list[Cell] = [(by, DIM), *((name, DIM) for name in HEAD)]
    table = [head, *([name or "none", *_cells(numbers)] for name, numbers in rows)]
    table += [[("others", DIM), *_cells(others)]] if others is not None else []
    render.table([*table, [("all", BOLD), *_cells(found.total)]])
    return 0


def _cells(numbers: TrafficTotals) -> Iterator[Cell]:
    yield f"{numbers.requests}"
    for stopped in (numbers.denied, numbers.cut):
        yield (f"{stopped}", BAD if stopped else PLAIN)
    yield (f"{numbers.failed}", DOUBT if numbers.failed else PLAIN)
    yield f"{numbers.with_secret}"
    yield _bytes(numbers.bytes_up)
    yield _bytes(numbers.bytes_down)
    yield duration(numbers.p50_us)
    yield duration(numbers.p95_us)


def _bytes(number: int) -> str:
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number} B"


def duration(microseconds: int) -> str:
    """Return `12 ms`; empty for zero."""
    if not microseconds:
        return ""
    # Above ten seconds, milliseconds are noise.
    if microseconds >= 10_000_000:
        return f"{microseconds / 1_000_000:.0f} s"
    return f"{microseconds / 1000:.0f} ms" if microseconds >= 1000 else f"{microseconds} us"
