"""`egress run`: one command in a sandbox that is made for it."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

import click

from egress.cli.sandboxes import create, fleet_session, sandbox_options, summary
from egress.cli.sandboxes.sandbox_options import SandboxOptions


@click.command(context_settings={"allow_interspersed_args": False})
@fleet_session.options
@sandbox_options.add_options
@click.option("--keep", is_flag=True, help="Leave the sandbox there; needs `egress up`.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing beside what the command says.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    rules: tuple[Path, ...],
    runtime: str | None,
    runtime_dir: Path | None,
    seccomp: Path | None,
    keep: bool,
    quiet: bool,
    command: tuple[str, ...],
    **given: Unpack[SandboxOptions],
) -> int:
    """Run a command in a sandbox that has no other way out than the proxy.

    The sandbox is made for it, holds no secret, and is gone afterwards. The status is that of the
    command, and 124 when its time was over. What went out is summed up at the end.

    \b
    Examples:
      egress run -- curl https://api.example.com/v1/me
      egress run --mount .:/workspace:rw -- bash
      egress run --agent claude-code --image my-agents -- claude -p "fix the test"
    """
    wish = create.read_request(given)
    with fleet_session.fleet(rules, runtime, runtime_dir, seccomp, image=wish.image, keep=keep) as fleet:
        if not quiet and not fleet_session.is_shared(fleet):
            fleet_session.introduce(fleet.about)
        spec = create.spec_of(fleet, wish, quiet=quiet)
        since = summary.mark(fleet.about)
        status = create.run_in(fleet, spec, command, seconds=wish.seconds, keep=keep)
        if not quiet:
            summary.show(fleet.about, spec.name, since)
        return status
