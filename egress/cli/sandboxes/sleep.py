"""`egress sleep` and `egress wake`: stop sandboxes until their next use, and start them again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from egress.cli import folder_options, progress, render
from egress.cli.sandboxes import fleet_session
from egress.fleet import RemoteRuntime


@click.command()
@folder_options.of_running
@click.argument("sandboxes", nargs=-1, required=True)
def sleep(runtime_dir: Path | None, sandboxes: tuple[str, ...]) -> int:
    """Stop sandboxes until their next use.

    Their files stay, their processes end. A command, a copied file or a preview wakes them.

    \b
    Examples:
      egress sleep run-4f2a9c1e
    """
    return _each(runtime_dir, sandboxes, RemoteRuntime.sleep, "asleep")


@click.command()
@folder_options.of_running
@click.argument("sandboxes", nargs=-1, required=True)
def wake(runtime_dir: Path | None, sandboxes: tuple[str, ...]) -> int:
    """Start sandboxes that are asleep.

    Every use of a sandbox does that, too.

    \b
    Examples:
      egress wake run-4f2a9c1e
    """
    return _each(runtime_dir, sandboxes, RemoteRuntime.wake, "awake")


def _each(
    runtime_dir: Path | None, sandboxes: tuple[str, ...], act: Callable[[RemoteRuntime, str], None], done: str
) -> int:
    with fleet_session.connect_served(runtime_dir) as fleet:
        # Look all of them up first: a wrong name must not leave the job half done.
        for name in [info.name for info in map(fleet.info, sandboxes)]:
            with progress.step(f"waiting until {name} is {done}"):
                act(fleet, name)
            render.line(f"{name} is {done}")
    return 0
