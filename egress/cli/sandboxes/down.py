"""`egress down`: stop what `egress up` started, with all its sandboxes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

import click

from egress import environment
from egress.cli import folder_options, progress, render
from egress.cli.sandboxes import fleet_session
from egress.errors import UnreadableError
from egress.fleet.folders import SOCKET_NAME
from egress.fleet.remote import connect_if_served

_STOP_TIMEOUT: Final = 120.0
_POLL_INTERVAL: Final = 0.05


@click.command()
@folder_options.of_running
def down(runtime_dir: Path | None) -> int:
    """Stop the proxy that `egress up` started, and remove all of its sandboxes.

    Returns when they are gone.

    \b
    Examples:
      egress down
    """
    folder = runtime_dir or environment.runtime_dir(environment.read_environment())
    with fleet_session.connect_served(runtime_dir) as fleet:
        names = [info.name for info in fleet.list()]
        fleet.end()
    removed = f"{len(names)} sandbox{'' if len(names) == 1 else 'es'}"
    with progress.step(f"removing {removed}"):
        _wait_until_stopped(folder / SOCKET_NAME)
    render.line(f"stopped; {removed} removed")
    return 0


def _wait_until_stopped(path: Path) -> None:
    """Return when no fleet answers at the socket. Raises `UnreadableError`."""
    # Removing sandboxes takes time; the socket disappears last.
    for _ in range(int(_STOP_TIMEOUT / _POLL_INTERVAL)):
        there = connect_if_served(path)
        if there is None:
            return
        there.close()
        time.sleep(_POLL_INTERVAL)
    raise UnreadableError("it has not stopped yet", "check up.log in the state folder")
