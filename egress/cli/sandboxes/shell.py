"""`egress shell`: a shell in a sandbox, an own one or one that is there."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import click

from egress.cli.sandboxes import opened, summary, wanted
from egress.cli.sandboxes.attach import has_terminal
from egress.cli.sandboxes.making import join, run_in, spec_of
from egress.cli.sandboxes.wanted import Given
from egress.runtime.spec import Command

_SHELL = ("/bin/sh", "-c", "command -v bash >/dev/null && exec bash || exec sh")
"""The better one of those that are there."""


@click.command()
@opened.options
@wanted.making
@click.argument("sandbox", required=False)
def shell(
    rules: tuple[Path, ...],
    runtime: str | None,
    runtime_dir: Path | None,
    seccomp: Path | None,
    sandbox: str | None,
    **given: Unpack[Given],
) -> int:
    """Open a shell in a sandbox.

    It is one that is there, or a new one, which ends with the shell.

    \b
    Examples:
      egress shell
      egress shell run-4f2a9c1e
    """
    if sandbox is not None:
        with opened.served(runtime_dir) as there:
            return join(there, sandbox, Command(argv=_SHELL, most_output=0), terminal=has_terminal())
    with opened.fleet(rules, runtime, runtime_dir, seccomp) as fleet:
        if not opened.is_shared(fleet):
            opened.say(fleet.about.line)
        spec = spec_of(fleet, given)
        since = summary.mark(fleet.about)
        status = run_in(fleet, spec, _SHELL, given, keep=False)
        summary.show(fleet.about, spec.name, since)
        return status
