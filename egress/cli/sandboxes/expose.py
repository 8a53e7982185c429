"""`egress expose`: show ports of sandboxes to browsers, and list what is shown."""

from __future__ import annotations

from pathlib import Path

import click

from egress.cli import folder_options, render
from egress.cli.render import DIM
from egress.cli.sandboxes import fleet_session, sandbox_options
from egress.errors import UsageError
from egress.fleet import Preview, RemoteRuntime


@click.command()
@folder_options.of_running
@click.option(
    "--expires", metavar="TIME", help="Time until the preview ends: 90s, 10m, 2h. [with the sandbox]"
)
@click.option("--remove", is_flag=True, help="End the preview instead.")
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@click.argument("sandbox", required=False)
@click.argument("port", type=click.IntRange(1, 65535), required=False)
def expose(
    runtime_dir: Path | None,
    expires: str | None,
    remove: bool,
    as_json: bool,
    sandbox: str | None,
    port: int | None,
) -> int:
    """Show a port of a sandbox to browsers, and print its address.

    Whoever has the address uses the port. Again, for the same port, it prints the same address. Without a
    port it lists what is exposed, without the tokens.

    \b
    Examples:
      egress expose run-4f2a9c1e 8000 --expires 2h
      egress expose run-4f2a9c1e 8000 --remove
      egress expose
    """
    seconds = sandbox_options.read_seconds("--expires", expires)
    if remove and seconds is not None:
        raise UsageError("--remove ends the preview now, and --expires later", "give one of them")
    if port is None and (remove or seconds is not None):
        raise UsageError("the port is missing", "name a sandbox and its port: egress expose SANDBOX 8000")
    with fleet_session.connect_served(runtime_dir) as fleet:
        if sandbox is None or port is None:
            _list(fleet, sandbox, as_json=as_json)
        elif remove:
            # Asked first: a wrong name is told.
            fleet.info(sandbox)
            fleet.unexpose(sandbox, port)
            render.line(f"{sandbox}: port {port} is not exposed any more")
        else:
            made = fleet.expose(sandbox, port, seconds)
            if as_json:
                render.data({**_as_data(made), "url": made.url, "token": made.token})
            else:
                render.line(made.url, whole=True)
    return 0


def _list(fleet: RemoteRuntime, sandbox: str | None, *, as_json: bool) -> None:
    if sandbox is not None:
        fleet.info(sandbox)
    found = [each for each in fleet.previews() if sandbox in (None, each.sandbox)]
    if as_json:
        render.data([_as_data(each) for each in found])
    elif found:
        heads = ("sandbox", "port", "left", "address")
        render.table([[(text, DIM) for text in heads], *(_row(each) for each in found)])
    else:
        render.line("no previews")


def _row(each: Preview) -> list[render.Cell]:
    return [each.sandbox, str(each.port), "" if each.left is None else render.span(each.left), each.origin]


def _as_data(each: Preview) -> dict[str, object]:
    return {
        "sandbox": each.sandbox,
        "port": each.port,
        "origin": each.origin,
        "seconds_left": each.left,
    }
