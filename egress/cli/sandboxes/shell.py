"""`egress shell`: a shell in a sandbox, an own one or one that is there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Unpack

import click
from click.core import ParameterSource

from egress.cli.sandboxes import create, fleet_session, sandbox_options, summary
from egress.cli.sandboxes.attach import has_terminal
from egress.cli.sandboxes.sandbox_options import SandboxOptions
from egress.errors import UsageError
from egress.runtime.spec import Command, check_name

_SHELL: Final = ("/bin/sh", "-c", "command -v bash >/dev/null && exec bash || exec sh")
"""The better one of those that are there."""
_FOR_ANY: Final = frozenset({"sandbox", "runtime_dir"})
"""What can be said of one that is there."""


@click.command()
@fleet_session.options
@sandbox_options.add_options
@click.argument("sandbox", required=False)
def shell(
    rules: tuple[Path, ...],
    runtime: str | None,
    runtime_dir: Path | None,
    seccomp: Path | None,
    sandbox: str | None,
    **given: Unpack[SandboxOptions],
) -> int:
    """Open a shell in a sandbox.

    It is one that is there, or a new one, which ends with the shell.

    \b
    Examples:
      egress shell
      egress shell run-4f2a9c1e
    """
    if sandbox is not None:
        _refuse_options()
        with fleet_session.connect_served(runtime_dir) as there:
            command = Command(argv=_SHELL, env=_prompt(sandbox), most_output=0)
            return create.attach_command(there, sandbox, command, terminal=has_terminal())
    wish = create.read_request(given)
    with fleet_session.fleet(rules, runtime, runtime_dir, seccomp, image=wish.image) as fleet:
        if not fleet_session.is_shared(fleet):
            fleet_session.introduce(fleet.about)
        spec = create.spec_of(fleet, wish)
        since = summary.mark(fleet.about)
        prompt = _prompt(spec.name)
        status = create.run_in(fleet, spec, _SHELL, seconds=wish.seconds, keep=False, env=prompt)
        summary.show(fleet.about, spec.name, since)
        return status


def _refuse_options() -> None:
    """Raise `UsageError` where something was said of how the sandbox is to be made: it is there."""
    context = click.get_current_context()
    for each in context.command.params:
        is_said = context.get_parameter_source(each.name or "") is ParameterSource.COMMANDLINE
        if is_said and each.name not in _FOR_ANY:
            raise UsageError(
                f"{each.opts[0]} is for a sandbox that is made, and this one is there",
                "leave it out, or leave out the name of the sandbox",
            )


def _prompt(name: str) -> Mapping[str, str]:
    """Variables by which a shell shows where one is: its user may have no name there."""
    check_name(name)
    # The one form that dash, busybox and bash all fill in.
    prompt = f"{name}:$PWD\\$ "
    # Bash reads files that set another one before it shows the first; this is done after them, once.
    return {"PS1": prompt, "PROMPT_COMMAND": f"PS1='{prompt}'; unset PROMPT_COMMAND"}
