"""`egress exec`: run a command in an existing sandbox."""

from __future__ import annotations

from pathlib import Path

import click

from egress.cli import folder_options, render
from egress.cli.parameter_options import read_parameters
from egress.cli.sandboxes import fleet_session, sandbox_options
from egress.cli.sandboxes.command_streams import has_terminal
from egress.cli.sandboxes.sandbox_command import attach_command
from egress.runtime.environ import read_requested
from egress.runtime.spec import Command, RunRights


@click.command("exec", context_settings={"allow_interspersed_args": False})
@folder_options.of_running
@click.option(
    "--env", "asked", multiple=True, metavar="NAME[=VALUE]", help="Environment variable for the command."
)
@click.option("--cwd", help="Working folder. [the sandbox's workdir]")
@click.option("--timeout", metavar="TIME", help="Time limit: 90s, 10m, 2h.")
@click.option("--profile", help="Profile of the rules for the command alone.")
@click.option(
    "--param",
    "params",
    multiple=True,
    metavar="NAME=VALUE",
    help="Value for a parameter of the rules, for the command alone.",
)
@click.option("-d", "--detach", is_flag=True, help="Let the command go on, and print its id.")
@click.argument("sandbox")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def execute(  # noqa: PLR0913, PLR0917 - each parameter is an option
    runtime_dir: Path | None,
    asked: tuple[str, ...],
    cwd: str | None,
    timeout: str | None,
    profile: str | None,
    params: tuple[str, ...],
    detach: bool,
    sandbox: str,
    command: tuple[str, ...],
) -> int:
    """Run a command in an existing sandbox.

    Exits with the status of the command, or 124 after a timeout. With --detach it returns at once: the
    command goes on, and `egress attach` follows it by its id. Rights by --profile and --param end with it.

    \b
    Examples:
      egress exec run-4f2a9c1e -- git status
      egress exec --detach run-4f2a9c1e -- python3 -m http.server 8000
      egress exec --timeout 10m run-4f2a9c1e -- make test
    """
    # click does not remove a `--` after the name of the sandbox.
    argv = command[1:] if command[0] == "--" else command
    seconds = sandbox_options.read_seconds("--timeout", timeout)
    with fleet_session.connect_served(runtime_dir) as fleet:
        call = Command(
            argv=argv,
            cwd=cwd,
            env=fleet_session.requested_variables(fleet.about, read_requested(asked)),
            timeout=seconds,
            most_output=0,
            input=b"" if detach else None,
            rights=RunRights.asked(profile, dict(read_parameters(params))),
        )
        if detach:
            render.line(fleet.tracked.start(sandbox, call).status().id)
            return 0
        return attach_command(fleet, sandbox, call, terminal=has_terminal() and seconds is None)
