"""`egress rm`: remove sandboxes."""

from __future__ import annotations

from pathlib import Path

import click

from egress.cli import folder_options, progress, render
from egress.cli.sandboxes import fleet_session
from egress.errors import UsageError


@click.command()
@folder_options.of_running
@click.option("--all", "every", is_flag=True, help="All sandboxes.")
@click.argument("sandboxes", nargs=-1)
def rm(runtime_dir: Path | None, every: bool, sandboxes: tuple[str, ...]) -> int:
    """Remove sandboxes, with everything they have written.

    \b
    Examples:
      egress rm run-4f2a9c1e
      egress rm --all
    """
    if bool(sandboxes) == every:
        raise UsageError("no sandbox is named", "name sandboxes, or use --all")
    with fleet_session.connect_served(runtime_dir) as fleet:
        # Look all of them up first: a wrong name must not leave the job half done.
        names = [info.name for info in (fleet.list() if every else map(fleet.info, sandboxes))]
        for name in names:
            with progress.step(f"removing {name}"):
                fleet.remove(name)
            render.line(f"removed {name}")
    return 0
