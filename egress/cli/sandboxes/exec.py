"""`egress exec`: a command in a sandbox that is there."""

from __future__ import annotations

from pathlib import Path

import click

from egress.cli import rulefiles
from egress.cli.sandboxes import fleet_session, sandbox_options
from egress.cli.sandboxes.attach import has_terminal
from egress.cli.sandboxes.create import attach_command
from egress.runtime.environ import read_requested
from egress.runtime.spec import Command


@click.command("exec", context_settings={"allow_interspersed_args": False})
@click.option("--runtime-dir", type=rulefiles.FILE, help="The folder of the sockets.")
@click.option("--env", "asked", multiple=True, metavar="NAME[=VALUE]", help="A variable for the command.")
@click.option("--cwd", help="Where it starts. [the sandbox's own folder]")
@click.option("--timeout", metavar="TIME", help="End it after this time: 90s, 10m, 2h.")
@click.argument("sandbox")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def execute(
    runtime_dir: Path | None,
    asked: tuple[str, ...],
    cwd: str | None,
    timeout: str | None,
    sandbox: str,
    command: tuple[str, ...],
) -> int:
    """Run a command in a sandbox that is there.

    The status is that of the command, and 124 when its time was over.

    \b
    Examples:
      egress exec run-4f2a9c1e -- git status
      egress exec --timeout 10m run-4f2a9c1e -- make test
    """
    # Behind the name click leaves it where it is.
    argv = command[1:] if command[0] == "--" else command
    seconds = sandbox_options.read_seconds("--timeout", timeout)
    with fleet_session.connect_served(runtime_dir) as fleet:
        call = Command(
            argv=argv,
            cwd=cwd,
            env=fleet_session.requested_variables(fleet.about, read_requested(asked)),
            timeout=seconds,
            most_output=0,
        )
        return attach_command(fleet, sandbox, call, terminal=has_terminal() and seconds is None)
