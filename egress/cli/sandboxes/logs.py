"""`egress logs`: show a sandbox's requests, from the log of its proxy."""

from __future__ import annotations

from pathlib import Path

import click

from egress.cli import folder_options
from egress.cli.log.tail import show
from egress.cli.sandboxes import fleet_session
from egress.errors import UnreadableError
from egress.review import Filters


@click.command()
@folder_options.of_running
@click.option("--follow", "-f", "follows", is_flag=True, help="Follow new lines until Ctrl-C.")
@click.option(
    "--lines", "-n", "last", type=click.IntRange(0, 10_000), default=100, help="Number of lines. [100]"
)
@click.option("--json", "as_json", is_flag=True, help="Print the lines unchanged, one JSON object each.")
@click.argument("sandbox")
def logs(runtime_dir: Path | None, follows: bool, last: int, as_json: bool, sandbox: str) -> int:
    """Show a sandbox's requests, and the decisions on them.

    Shows its lines of the audit log; use `egress log` for removed sandboxes.

    \b
    Examples:
      egress logs run-4f2a9c1e
      egress logs -f run-4f2a9c1e
    """
    with fleet_session.connect_served(runtime_dir) as fleet:
        # Fails for an unknown name: otherwise a typo would look like a sandbox without requests.
        fleet.info(sandbox)
        audit, run = fleet.about.audit, fleet.about.run
    if audit is None:
        raise UnreadableError("its log cannot be read by this user", "use `egress log`")
    # Of this run alone: sandboxes of other runs may have the same name.
    return show(audit, Filters(sandbox=sandbox, run=run), last, follows=follows, as_json=as_json)
