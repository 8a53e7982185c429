"""`egress cp`: copy files and folders into a sandbox, and out of it."""

from __future__ import annotations

import re
from pathlib import Path

import click

from egress.cli import folder_options, progress
from egress.cli.sandboxes import fleet_session
from egress.errors import UsageError
from egress.runtime.spec import NAME_PATTERN
from egress.sandbox.handle import Sandbox

_THERE = re.compile(rf"({NAME_PATTERN.pattern}):(.*)", re.DOTALL)


@click.command()
@folder_options.of_running
@click.argument("source")
@click.argument("target")
def cp(runtime_dir: Path | None, source: str, target: str) -> int:
    """Copy a file or a folder into a sandbox, or out of it.

    One path is SANDBOX:PATH; a relative path there starts at the workspace. The content of a folder is copied
    into a folder.

    \b
    Examples:
      egress cp notes.md run-4f2a9c1e:notes.md
      egress cp run-4f2a9c1e:/workspace/dist dist
    """
    inside, outside = _THERE.fullmatch(source), _THERE.fullmatch(target)
    # Like in scp, `./a:b` is a local file whose name contains a colon.
    if (inside is None) == (outside is None):
        raise UsageError("exactly one path must be in a sandbox", "write SANDBOX:PATH")
    there = inside or outside
    with fleet_session.connect_served(runtime_dir) as fleet:
        sandbox = Sandbox.connect(there[1] if there else "", runtime=fleet)
        with progress.step(f"copying {source} to {target}") as step:
            fleet.count_bytes = step.add_bytes
            if inside is not None:
                sandbox.files.copy_out(inside[2] or ".", Path(target))
            elif outside is not None:
                sandbox.files.copy_in(Path(source), outside[2] or ".")
    return 0
