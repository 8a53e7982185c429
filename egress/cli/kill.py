"""`egress kill`: revoke a sandbox, host or secret immediately."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from egress.cli import folder_options, render
from egress.cli.control_client import ask_proxy
from egress.cli.render import BAD, BOLD, GOOD, count
from egress.errors import ContentError, UsageError

_AFTER = {
    "sandbox": "it cannot connect",
    "host": "no sandbox can connect to it",
    "secret": "it is not injected",
}


@click.command()
@click.argument("name")
@click.option("--sandbox", "kind", flag_value="sandbox", help="NAME is a sandbox.")
@click.option("--host", "kind", flag_value="host", help="NAME is a host or a host pattern.")
@click.option("--secret", "kind", flag_value="secret", help="NAME is a secret.")
@click.option("--undo", is_flag=True, help="Undo the revocation.")
@click.option("--keep", is_flag=True, help="Keep a host or secret revoked after a restart, too.")
@folder_options.of_running
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
def kill(name: str, kind: str | None, undo: bool, keep: bool, runtime_dir: Path | None, as_json: bool) -> int:
    """Revoke a sandbox, host or secret in a running proxy, immediately.

    Open connections of it are closed, and new ones refused. The kind of NAME is detected by the name. The
    rules are not changed: this is for emergencies. It holds until you undo it, across reloads and whatever
    value the source of a secret gives; with --keep across restarts, too.

    \b
    Examples:
      egress kill api.example.com
      egress kill --undo api.example.com
      egress kill --secret deploy-token --keep
    """
    if undo and keep:
        raise click.UsageError("--undo ends a revocation; leave --keep away.")
    body = {"name": name, "kind": kind, "undo": undo, **({"keep": True} if keep else {})}
    status, answer = ask_proxy("POST", "/kill", body, runtime_dir)
    # The name fits no kind, or several: guessing in an emergency could revoke the wrong thing.
    if status == 409:
        raise UsageError(str(answer.get("error", "")), str(answer.get("hint", "")))
    if status != 200:
        raise ContentError(
            str(answer.get("error", "the proxy refused the request")), str(answer.get("hint", ""))
        )
    if as_json:
        render.data(answer)
        return int(keep and answer.get("kept") is not True)
    _say(str(answer["kind"]), str(answer["name"]), answer, undo=undo)
    if keep and answer.get("kept") is not True:
        # A proxy of an older version takes no notice of the wish.
        raise ContentError("it is revoked until the next restart only", "restart the proxy with this version")
    return 0


def _say(kind: str, name: str, answer: Mapping[str, object], *, undo: bool) -> None:
    # Undoing an unknown revocation is harmless, but likely a typo.
    if undo and not answer["known"]:
        render.line(f"the {kind} {name} was not revoked")
    elif undo:
        render.line(("restored: ", GOOD), f"the {kind} ", (name, BOLD))
    else:
        closed = count(int(str(answer["connections"])), "connection")
        render.line(("revoked: ", BAD), f"the {kind} ", (name, BOLD), f", {closed} closed")
        until = "" if answer.get("kept") is True else " or a restart"
        render.line(f"  {_AFTER[kind]} until `egress kill --undo`{until}")
