"""`egress log show`: show one request, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from egress.cli import render
from egress.cli.log import line_format, locations
from egress.cli.log.id_argument import IdCommand
from egress.cli.log.stats import duration
from egress.cli.render import BOLD, DIM, PLAIN, Cell
from egress.errors import ContentError

if TYPE_CHECKING:
    from egress.review import LogEntry

MAX_ID_LENGTH = 1000


@click.command(cls=IdCommand, short_help="Show one request, stage by stage.")
@click.argument("request_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print the lines unchanged, one JSON object each.")
@locations.of_index
def show(
    request_id: str, as_json: bool, state_dir: Path | None, directory: Path | None, place: Path | None
) -> int:
    """Show one request of the audit log: every stage, and the rule line that decided it.

    ID is the id of a request, as in a denial, or of a connection, which shows all its lines. Values of
    secrets are never logged.

    \b
    Examples:
      egress log show 3fJq0b2Kx9aZ
    """
    from egress.review.log_files import LogFiles

    with locations.open_index(state_dir, directory, place) as index:
        # A refused connection has no request, so its own id has to work here, too.
        found = index.find(request_id[:MAX_ID_LENGTH]) or index.connection(request_id[:MAX_ID_LENGTH])
        names = {file.number: file.name for file in LogFiles.of(index.directory)}
    if not found:
        raise ContentError(
            "no line of the log has this id", "`egress log query` shows ids; old files may have been deleted"
        )
    for entry in found:
        if as_json:
            line_format.as_json(entry)
        else:
            _show(entry, names)
    return 0


def _show(entry: LogEntry, names: Mapping[int, str]) -> None:
    from egress.review.timeline import build_timeline

    where = f", line number {entry.seq}, {names.get(entry.file, 'a file that is gone')}"
    render.line((entry.event, BOLD), f" {entry.request or entry.text('connection')} at {entry.time}{where}")
    rows: list[list[Cell]] = []
    for stage in build_timeline(entry):
        style = line_format.STYLES.get(entry.verdict, PLAIN) if stage.name == "decided" else PLAIN
        rows.append([(stage.name, DIM), (stage.text, style), duration(stage.took_us), (stage.note, DIM)])
    render.table(rows, indent=2)
