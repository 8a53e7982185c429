"""`egress shell`: open a shell in a new or an existing sandbox."""

from __future__ import annotations

from typing import Unpack

import click

from egress.cli.sandboxes import fleet_options, fleet_session, sandbox_command, sandbox_options, summary
from egress.cli.sandboxes.command_streams import has_terminal
from egress.cli.sandboxes.fleet_options import FleetOptions
from egress.cli.sandboxes.sandbox_options import SandboxOptions
from egress.cli.sandboxes.shell_prompt import prompt_of
from egress.runtime.spec import Command
from egress.sandbox.terminal import SHELL_COMMAND


@click.command()
@fleet_options.add_options
@sandbox_options.add_options
@click.argument("sandbox", required=False)
def shell(
    source: FleetOptions,
    sandbox: str | None,
    **given: Unpack[SandboxOptions],
) -> int:
    """Open a shell in a sandbox.

    Without SANDBOX, creates a sandbox that is removed when the shell ends.

    \b
    Examples:
      egress shell
      egress shell run-4f2a9c1e
    """
    if sandbox is not None:
        sandbox_options.refuse_for_existing()
        with fleet_session.connect_served(fleet_session.served_folder(source)) as there:
            command = Command(argv=SHELL_COMMAND, env=prompt_of(sandbox), most_output=0)
            return sandbox_command.attach_command(there, sandbox, command, terminal=has_terminal())
    request = sandbox_command.read_request(given)
    with fleet_session.fleet(source, spec=request.spec, image=request.image, agent=request.agent) as fleet:
        if not fleet_session.is_shared(fleet):
            fleet_session.introduce(fleet.about)
        spec = sandbox_command.spec_of(fleet, request)
        since = summary.mark(fleet.about)
        prompt = prompt_of(spec.name)
        status = sandbox_command.run_in(
            fleet, spec, SHELL_COMMAND, seconds=request.seconds, keep=False, env=prompt
        )
        summary.show(fleet.about, spec.name, since)
        return status
