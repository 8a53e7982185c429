"""`egress ps`: list sandboxes."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click

from egress.cli import folder_options, render
from egress.cli.render import BAD, DIM, DOUBT, GOOD, Cell
from egress.cli.sandboxes import fleet_session
from egress.fleet import Preview, SandboxStatus

_STYLES = {"running": GOOD, "paused": DOUBT, "stopped": BAD}


@click.command()
@folder_options.of_running
@click.option("--json", "as_json", is_flag=True, help="Print the list as JSON.")
def ps(runtime_dir: Path | None, as_json: bool) -> int:
    """List the sandboxes of `egress up`.

    \b
    Examples:
      egress ps
      egress ps --json
    """
    with fleet_session.connect_served(runtime_dir) as fleet:
        standings = [fleet.status(info.name) for info in fleet.list()]
        previews = fleet.previews()
    if as_json:
        render.data([_as_data(each, previews) for each in standings])
    elif standings:
        heads: list[Cell] = [(text, DIM) for text in ("sandbox", "state", "image", "profile", "made", "left")]
        render.table([heads, *map(_row, standings)])
        for each in previews:
            render.line(f"{each.sandbox}: preview of port {each.port}")
    else:
        render.line("no sandboxes")
    return 0


def _row(each: SandboxStatus) -> list[Cell]:
    info = each.info
    made = _ago(info.created) if info.created else ""
    left = "" if each.left is None else f"{_span(each.left)}"
    return [info.name, (info.state, _STYLES.get(info.state, "")), info.image, info.profile or "", made, left]


def _as_data(each: SandboxStatus, previews: tuple[Preview, ...]) -> dict[str, object]:
    info = each.info
    return {
        "name": info.name,
        "state": info.state,
        "image": info.image,
        "profile": info.profile,
        "labels": dict(info.labels),
        "created": info.created.isoformat() if info.created else None,
        "exit_code": info.exit_code,
        "seconds_left": each.left,
        "seconds_idle": each.idle,
        # The address contains the token, so only the port is listed.
        "ports": [preview.port for preview in previews if preview.sandbox == info.name],
    }


def _ago(moment: datetime) -> str:
    now = datetime.now(UTC)  # noqa: TID251 - the command line is where the clock enters
    return f"{_span((now - moment).total_seconds())} ago"


def _span(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{max(0.0, seconds):.0f}s"
