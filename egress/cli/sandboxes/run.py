"""`egress run`: run one command in a sandbox made for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

import click

from egress.cli.sandboxes import fleet_options, fleet_session, sandbox_command, sandbox_options
from egress.cli.sandboxes.fleet_options import FleetOptions
from egress.cli.sandboxes.sandbox_options import SandboxOptions
from egress.errors import UsageError
from egress.fleet import SandboxLifetime
from egress.fleet.lifetime import NO_TIME_LIMIT, ON_IDLE, OnIdle, check_on_idle


@click.command(context_settings={"allow_interspersed_args": False})
@fleet_options.add_options
@sandbox_options.add_options
@click.option("--snapshot", metavar="NAME", default="", help="Begin with the files of a snapshot.")
@click.option("--keep", is_flag=True, help="Keep the sandbox; needs `egress up`.")
@click.option("--idle-timeout", metavar="TIME", help="With --keep: the time without use until --on-idle.")
@click.option(
    "--on-idle",
    type=click.Choice(ON_IDLE),
    default="delete",
    show_default=True,
    help="With --keep: remove the idle sandbox, or stop it until its next use.",
)
@click.option("-q", "--quiet", is_flag=True, help="Print only the command's own output.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(
    source: FleetOptions,
    snapshot: str,
    keep: bool,
    idle_timeout: str | None,
    on_idle: OnIdle,
    quiet: bool,
    command: tuple[str, ...],
    **given: Unpack[SandboxOptions],
) -> int:
    """Run a command in a sandbox whose only way out is the proxy.

    The sandbox is created for this command, holds no secret, and is removed afterwards. Exits with the status
    of the command, or 124 after a timeout. A summary of its requests is printed at the end.

    \b
    Examples:
      egress run -- curl https://api.example.com/v1/me
      egress run --mount .:/workspace:rw -- bash
      egress run --agent claude-code --mount .:/workspace:rw -- claude -p "fix the test"
    """
    request = sandbox_command.read_request(given)
    with sandbox_options.named_by_option():
        terms = replace(_kept_terms(request, idle_timeout, on_idle, keep=keep), snapshot=snapshot)
    # A snapshot may bring an image, so nothing is made ahead for it.
    expected = None if snapshot else request.spec
    with fleet_session.fleet(
        source, spec=expected, image=request.image, agent=request.agent, keep=keep, quiet=quiet
    ) as fleet:
        if not quiet and not fleet_session.is_shared(fleet):
            fleet_session.introduce(fleet.about)
        # Imported here: the proxy loads at the same time.
        from egress.cli.sandboxes import summary

        spec = sandbox_command.spec_of(fleet, request, snapshot=snapshot, quiet=quiet)
        # Marked before the sandbox exists, so that its first request is counted, too.
        since = summary.mark(fleet.about)
        status = sandbox_command.run_in(
            fleet, spec, command, seconds=request.seconds, keep=keep, terms=terms, quiet=quiet
        )
        if not quiet:
            summary.show(fleet.about, spec.name, since)
        return status


def _kept_terms(
    request: sandbox_command.SandboxRequest, idle_timeout: str | None, on_idle: OnIdle, *, keep: bool
) -> SandboxLifetime:
    """Return what happens to a kept sandbox that is idle. Raises `UsageError`."""
    idle = sandbox_options.read_seconds("--idle-timeout", idle_timeout)
    if idle is None and on_idle == "delete":
        return NO_TIME_LIMIT
    if not keep:
        raise UsageError("--idle-timeout and --on-idle apply only to a kept sandbox", "add --keep")
    if idle is None:
        raise UsageError("--on-idle sleep has no --idle-timeout", "add one: --idle-timeout 10m")
    with sandbox_options.named_by_option():
        terms = SandboxLifetime(idle_timeout=idle, on_idle=on_idle)
        # Checked here as well, so that a mistake is reported before a proxy is asked.
        check_on_idle(request.spec, terms)
    return terms
